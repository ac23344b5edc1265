"""What a core offers beside its runs: lists, files, replies, costs, health, access and deletion."""
