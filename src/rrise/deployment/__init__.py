"""From a certifier folder to production: export, service, page and monitor."""
