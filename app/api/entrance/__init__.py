"""What a request passes before its route: who asks, how large it may be, and where it may come from."""
