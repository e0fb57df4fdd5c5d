"""The numbers printed in the paper: Tsai & Lee, "Order-free Learning Alleviating Exposure Bias in Multi-label
Classification", AAAI 2020. Nothing here was measured by this project.

A row is (method, decoder): every method with the decoder its row was decoded with, OCD + MTL with each of four.
Numbers are `Decimal`, so that they print with the digits the paper gave them; None where it prints "-".
They are stored as printed. Inconsistencies in the paper:

- AAPD, OCD: the text says 0.672 on average and 0.737 ebF1, the table 0.670 and 0.723. The table's own columns average
  to 0.670.
- Re-split AAPD, unseen part: for Seq2seq and Order-free RNN, with and without scheduled sampling, miF1 and ebF1 are
  exchanged between the short table and the detailed one; the two OCD rows agree. The detailed table, in which ebF1 is
  above miF1 in every row, is taken as correct.
- Re-split AAPD, unseen part: Order-free RNN + SS has ACC 0.040, yet the bold one is OCD's 0.017. The row's average goes
  with 0.040.
- Some averages are not those of their rows: see `WRONG_AVERAGES`.
- The text speaks of 43 test samples with unseen label sets in AAPD, the table of combinations of 43 such sets.
- Documents of more than 500 words are said to be removed, but the counts of the data sets are the complete ones.
- The data set is Reuters-21578; the text mostly writes 21758.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

Row = tuple[str, str]  # method, decoder
Scores = Mapping[str, Decimal | None]  # metric -> value

METRICS = {  # our names -> the paper's
    "macro_f1": "maF1",
    "micro_f1": "miF1",
    "example_f1": "ebF1",
    "subset_accuracy": "ACC",
    "hamming_accuracy": "HA",
    "average": "Average",
}
METHODS = {
    "svm": "SVM",
    "classifier-chain": "Classifier chain",
    "encdec": "EncDec",
    "seq2set-simplified": "Seq2set (simp.)",
    "seq2set": "Seq2set",
    "sgm-ge": "SGM+GE",
    "br": "BR",
    "br++": "BR++",
    "seq2seq": "Seq2seq",
    "seq2seq-ss": "Seq2seq + SS",
    "order-free-rnn": "Order-free RNN",
    "order-free-rnn-ss": "Order-free RNN + SS",
    "ocd-correct-prefix": "OCD (correct prefix)",
    "ocd": "OCD",
    "ocd-mtl": "OCD + MTL",
}
DECODERS = {"beam": "RNN dec.", "br": "BR dec.", "rescore": "Logistic rescore", "joint": "Logistic joint dec."}


def _rows(text: str, columns: tuple[str, ...] = tuple(METRICS)) -> dict[Row, Scores]:
    """A table of the paper: method, decoder, then one number or "-" per column."""
    rows: dict[Row, Scores] = {}
    for line in text.strip().splitlines():
        method, decoder, *values = line.split()
        numbers = [None if value == "-" else Decimal(value) for value in values]
        rows[method, decoder] = dict(zip(columns, numbers, strict=True))
    return rows


# (corpus, part) -> the performance table. SVM, EncDec, Seq2set and SGM are figures the paper quotes from others.
PERFORMANCE: dict[tuple[str, str], dict[Row, Scores]] = {
    ("aapd", "test"): _rows("""
        seq2set-simplified  beam     -      0.705  -      -      0.9753  -
        seq2set             beam     -      0.698  -      -      0.9751  -
        sgm-ge              beam     -      0.710  -      -      0.9755  -
        br                  br       0.523  0.694  0.695  0.368  0.9741  0.651
        br++                br       0.521  0.700  0.703  0.390  0.9750  0.658
        seq2seq             beam     0.511  0.695  0.707  0.421  0.9743  0.662
        seq2seq-ss          beam     0.541  0.703  0.713  0.406  0.9742  0.667
        order-free-rnn      beam     0.539  0.696  0.708  0.413  0.9742  0.666
        order-free-rnn-ss   beam     0.548  0.699  0.709  0.416  0.9743  0.669
        ocd                 beam     0.541  0.707  0.723  0.403  0.9740  0.670
        ocd-mtl             beam     0.578  0.711  0.727  0.391  0.9742  0.676
        ocd-mtl             br       0.562  0.711  0.718  0.382  0.9760  0.670
        ocd-mtl             rescore  0.585  0.720  0.736  0.395  0.9749  0.682
        ocd-mtl             joint    0.580  0.719  0.731  0.399  0.9753  0.681
    """),
    ("reuters", "test"): _rows("""
        svm                 br       0.468  0.787  -      -      -       -
        encdec              beam     0.457  0.855  0.891  0.828  0.996   0.805
        br                  br       0.442  0.861  0.878  0.817  0.9964  0.799
        br++                br       0.407  0.852  0.861  0.812  0.9962  0.786
        seq2seq             beam     0.465  0.862  0.895  0.834  0.9965  0.811
        seq2seq-ss          beam     0.464  0.856  0.895  0.834  0.9965  0.809
        order-free-rnn      beam     0.445  0.862  0.901  0.835  0.9963  0.806
        order-free-rnn-ss   beam     0.452  0.859  0.896  0.836  0.9962  0.808
        ocd                 beam     0.458  0.872  0.903  0.839  0.9966  0.814
        ocd-mtl             beam     0.475  0.874  0.905  0.844  0.9966  0.819
        ocd-mtl             br       0.459  0.877  0.898  0.835  0.9966  0.813
        ocd-mtl             rescore  0.477  0.875  0.903  0.842  0.9967  0.819
        ocd-mtl             joint    0.490  0.874  0.904  0.843  0.9967  0.822
    """),
    ("audioset", "test"): _rows("""
        br                  br       0.349  0.480  0.416  0.086  0.9957  0.465
        seq2seq             beam     0.345  0.448  0.421  0.140  0.9942  0.470
        seq2seq-ss          beam     0.340  0.448  0.419  0.137  0.9943  0.468
        order-free-rnn      beam     0.310  0.438  0.410  0.096  0.9940  0.450
        order-free-rnn-ss   beam     0.310  0.437  0.408  0.095  0.9947  0.449
        ocd                 beam     0.353  0.465  0.435  0.117  0.9941  0.473
        ocd-mtl             beam     0.359  0.466  0.438  0.115  0.9940  0.474
        ocd-mtl             br       0.353  0.485  0.420  0.075  0.9950  0.466
        ocd-mtl             rescore  0.378  0.487  0.456  0.096  0.9940  0.482
        ocd-mtl             joint    0.377  0.488  0.454  0.119  0.9945  0.487
    """),
    ("rcv1", "test"): _rows("""
        br                  br       0.671  0.868  0.881  0.642  0.9919  0.811
        br++                br       0.650  0.867  0.881  0.646  0.9919  0.807
        seq2seq             beam     0.654  0.864  0.881  0.662  0.9916  0.811
        seq2seq-ss          beam     0.653  0.860  0.878  0.658  0.9914  0.809
        order-free-rnn      beam     0.660  0.863  0.878  0.650  0.9917  0.809
        order-free-rnn-ss   beam     0.637  0.862  0.876  0.662  0.9917  0.806
        ocd                 beam     0.668  0.866  0.882  0.654  0.9918  0.812
        ocd-mtl             beam     0.671  0.867  0.882  0.651  0.9918  0.813
        ocd-mtl             br       0.663  0.869  0.885  0.637  0.9920  0.813
        ocd-mtl             rescore  0.676  0.869  0.884  0.653  0.9919  0.815
        ocd-mtl             joint    0.674  0.871  0.885  0.658  0.9920  0.816
    """),
    # The 405 test documents of Reuters with more than one label.
    ("reuters", "test_multi"): _rows("""
        br                  br       0.315  0.706  0.712  0.365  0.9850  0.617
        seq2seq             beam     0.316  0.712  0.718  0.405  0.9855  0.627
        seq2seq-ss          beam     0.325  0.718  0.722  0.380  0.9859  0.626
        order-free-rnn      beam     0.331  0.730  0.735  0.425  0.9862  0.641
        order-free-rnn-ss   beam     0.324  0.699  0.711  0.400  0.9849  0.624
        ocd                 beam     0.319  0.734  0.741  0.415  0.9864  0.639
        ocd-mtl             beam     0.335  0.745  0.749  0.440  0.9870  0.651
        ocd-mtl             br       0.322  0.739  0.737  0.430  0.9869  0.643
        ocd-mtl             rescore  0.337  0.750  0.752  0.435  0.9869  0.652
        ocd-mtl             joint    0.342  0.743  0.746  0.435  0.9870  0.651
    """),
    # AAPD re-split: 2,000 test documents whose label set occurs in training, and 2,000 whose set does not.
    ("aapd-resplit", "test_seen"): _rows("""
        seq2seq             beam     0.530  0.730  0.749  0.453  0.9771  0.688
        seq2seq-ss          beam     0.551  0.736  0.754  0.449  0.9774  0.693
        order-free-rnn      beam     0.545  0.732  0.746  0.468  0.9777  0.694
        order-free-rnn-ss   beam     0.546  0.724  0.740  0.415  0.9764  0.680
        ocd-correct-prefix  beam     0.543  0.726  0.741  0.452  0.9770  0.688
        ocd                 beam     0.571  0.746  0.771  0.443  0.9780  0.702
    """),
    ("aapd-resplit", "test_unseen"): _rows("""
        seq2seq             beam     0.402  0.503  0.508  0.002  0.9550  0.474
        seq2seq-ss          beam     0.418  0.515  0.517  0.009  0.9562  0.483
        order-free-rnn      beam     0.391  0.494  0.496  0.006  0.9560  0.469
        order-free-rnn-ss   beam     0.426  0.517  0.520  0.040  0.9557  0.492
        ocd-correct-prefix  beam     0.421  0.513  0.515  0.006  0.9566  0.482
        ocd                 beam     0.446  0.521  0.530  0.017  0.9553  0.494
    """),
}

# S_test and S_test-train: distinct label sets, and how many of them do not occur in training.
REFERENCE: Row = ("reference", "")
_COMBINATION_ROWS = (
    REFERENCE,
    ("ocd", "beam"),
    ("seq2seq", "beam"),
    ("seq2seq-ss", "beam"),
    ("order-free-rnn", "beam"),
    ("order-free-rnn-ss", "beam"),
)


def _combinations(distinct: str, unseen: str) -> dict[Row, Scores]:
    pairs = zip(_COMBINATION_ROWS, distinct.split(), unseen.split(), strict=True)
    return {row: {"distinct": Decimal(first), "unseen": Decimal(second)} for row, first, second in pairs}


COMBINATIONS: dict[str, dict[Row, Scores]] = {
    "aapd": _combinations("392 302 214 293 251 259", "43 30 1 3 1 4"),
    "reuters": _combinations("210 159 135 140 139 144", "94 37 15 16 23 26"),
    "audioset": _combinations("6300 4787 1974 1781 1806 1789", "2445 1943 4 8 263 237"),
}

# From the text: "Mean average precision score of 0.349". The paper gives none for label decoders; ours are marginals.
RANKING: dict[str, dict[Row, Scores]] = {"audioset": {("br", "br"): {"mean_average_precision": Decimal("0.349")}}}

# The rows of the figure of average ranks.
RANKED: tuple[Row, ...] = (
    ("br", "br"),
    ("seq2seq", "beam"),
    ("seq2seq-ss", "beam"),
    ("order-free-rnn", "beam"),
    ("order-free-rnn-ss", "beam"),
    ("ocd", "beam"),
    ("ocd-mtl", "joint"),
)

# Corpora of this project -> the paper's, and the limits of the comparison ("" if they are the same data).
COUNTERPARTS: dict[str, tuple[str, str]] = {
    "reuters": ("reuters", ""),
    "aapd": (
        "aapd",
        "near-comparable; the test part is the official one, the training part holds 52,588 of the official 53,840 "
        "documents' label lists (97.7 %), and which papers of a label set are in it is not certain for each",
    ),
    "aapd-resplit": (
        "aapd-resplit",
        "near-comparable; the rule of the released code, drawn anew on 54,588 documents; the paper has 55,840",
    ),
    "audioset": ("audioset", ""),
    "audioset-balanced": (
        "audioset",
        "not comparable; it trains on the 22,160 balanced clips, the paper on 2,063,949",
    ),
    "rcv1": ("rcv1", ""),
    "rcv1-subset": (
        "rcv1",
        "not comparable; it holds 14,423 documents as unordered terms, the paper's 804,414 as text",
    ),
}


def counterpart(corpus: str) -> tuple[str, str]:
    """The paper's name of one of our corpora, and the caveat of a comparison."""
    return COUNTERPARTS.get(corpus, (corpus, ""))
