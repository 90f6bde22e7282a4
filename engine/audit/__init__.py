"""What proves a reply: receipts, rounding distinguished from mistakes, exact-verify."""
