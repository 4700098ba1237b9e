"""``duetime verify``: orders, holds, assets and facts are read side by side, and what does not add up is said.

A judge must not share the mind of whom it judges: nothing here uses the code that closes, pays or gives back. It reads
plain rows (``rows``) and compares them (``orders``, ``assets``); ``work`` goes through everything in pages.

Why a shop that goes on selling does not disturb it:

* What belongs to one order is read in one snapshot, so half a close is never seen.
* Units are compared with holds in one snapshot too.
* What the shop does by itself (its own payments and cancellations) is followed by the sweep a little later. What looks
  wrong is therefore read again, until it is right or the patience is over; only what is wrong both times is told.

Nothing is locked and nothing is written.
"""
