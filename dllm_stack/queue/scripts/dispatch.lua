-- needs: dispatch
-- A router hands waiting jobs to free slots. Returns what `dispatch` does.
return dispatch(DISPATCH_AT_MOST)
