"""What a stage of a finished run recorded."""

from chaffinch.storage.runs.store import Store


def stage(store, result, name):
    (record,) = [r for r in Store.find(store).existing(result.run).records() if r.stage == name]
    return record.result
