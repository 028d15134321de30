"""The sections of a comparison's report, in their order."""

from boustro.studies.compare.learning import calibration, curves, layers
from boustro.studies.compare.mistakes import confusions, mistakes
from boustro.studies.compare.scores import compared, cost, scores, types, verdict
from boustro.studies.compare.sentences import sentences
from boustro.studies.compare.where import where
from boustro.studies.report import StudyReport, made

REPORT = StudyReport(
    verdict,
    (compared, scores, types, mistakes, confusions, where, sentences, layers, curves, calibration, cost, made),
)
