"""What proves a reply: receipts, rounding told from mistakes, exact-verify."""
