"""What shares out rows as workers do, without any."""


class OneWorker:
    """A cluster in this process, which shares everything out to two parts."""

    n_threads = 2

    def for_batches(self, shared):
        return lambda function, items: function(shared, list(items))

    def for_each(self, things):
        return lambda function, question: [function(thing, question) for thing in things]
