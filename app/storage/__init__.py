"""What a deployment stores: keys, the lock of its data folder, migrations, and the connection to Postgres."""
