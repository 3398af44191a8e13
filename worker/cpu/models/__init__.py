"""The models that SGLang imports first. It looks through its own 150 only for an architecture missing here,
which saves a second of every start and the warnings of those that need a GPU."""
