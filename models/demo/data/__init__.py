"""The text that the demo model learns from. All of it is generated here, and none of it copied."""
