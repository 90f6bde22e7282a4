"""What drafting may lose."""

from engine.purse import AT_ONCE, MOST, SHARE, SPAN, Purse


def test_a_purse_bounds_what_can_be_lost() -> None:
    purse, spent, tokens = Purse(), 0.0, 0
    while tokens < SPAN:
        price = 2.5 if purse.allows(2.5) else 1.0
        purse.book(1, price)
        spent, tokens = spent + price, tokens + 1
    assert 1.005 * tokens < spent <= (1 + SHARE) * tokens + 1e-9


def test_a_purse_lends_no_more_at_once_than_it_has_and_grows_with_gains_up_to_a_limit() -> None:
    purse = Purse()
    assert purse.allows(1 + AT_ONCE)
    assert not purse.allows(1.01 + AT_ONCE)
    for _ in range(100):
        purse.book(9, 2.0)
    assert purse.left == MOST


def test_what_is_left_is_dearer_the_less_there_is() -> None:
    purse = Purse()
    assert purse.care() == 1
    purse.book(1, 1 + AT_ONCE / 2)
    assert purse.care() > 1.9
    assert purse.care(rounds=50) < purse.care()
    purse.book(9, 2.0)
    assert purse.care() == 1
