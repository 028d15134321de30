"""Fitting: from labelled examples to a trained model with a record.

choice      fit_best, which `Task.learn` calls: choose the kind of head, train it, and estimate how good it is
training    fit: train one kind of head; copies, weak examples, parts of the training set
estimate    cross-validation, and whether more labels would help
"""
