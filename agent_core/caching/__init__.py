"""What prompt caches read, write and bill by the vendors' rules; the cheapest bill, and why another one is higher."""
