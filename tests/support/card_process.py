"""The process of a test on a card: see support/cards.py."""

import sys

from support.cards import call_body

call_body(*sys.argv[1:])
