"""What a stage of a finished run recorded, and what is made of it again."""

from chaffinch.storage.runs.store import Store


def stage(store, result, name):
    (record,) = [r for r in Store.find(store).existing(result.run).records() if r.stage == name]
    return record.result


def goes_on_from_what_was_found(result, select_again):
    """Hold that a run that lost all that comes after its search makes that alone again."""
    searched = (result.folder / "stages" / "optimise_mask.json").read_bytes()
    for later in ("choose_mask", "retrain", "evaluate", "write_report"):
        (result.folder / "stages" / f"{later}.json").unlink()
    assert select_again().contract == result.contract
    # which tells the time as well
    assert (result.folder / "stages" / "optimise_mask.json").read_bytes() == searched
