"""A small LLaDA2 checkpoint that answers with sense: its data, training and evaluation."""
