"""A store in object storage: its objects, their leases, and the folder that caches them."""
