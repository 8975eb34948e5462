"""A tiny random BERT and a collection of six documents, for tests of training."""

from __future__ import annotations

import json
from pathlib import Path

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DOCS = {
    "d1": "the cat rests under the tree",
    "d2": "a dog runs by the river",
    "d3": "the bird sings over the cloud",
    "d4": "a fish swims in the river",
    "d5": "the stone falls in the river",
    "d6": "a tree grows by the stone",
}
QUERIES = {"q1": "cat tree", "q2": "dog runs", "q3": "bird sings", "q4": "fish river", "q5": "stone falls"}
WORDS = sorted({word for text in [*DOCS.values(), *QUERIES.values()] for word in text.split()})
QRELS = {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d4", "q5": "d5"}


def make_backbone(folder: Path, mlm: bool = True, dropout: float = 0.1) -> Path:
    """A BERT of one layer, 16 wide, over 25 tokens, with random weights and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

    vocab = {word: at for at, word in enumerate(SPECIAL + WORDS)}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    special = {f"{name}_token": token for name, token in names.items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)  # type: ignore[no-untyped-call]
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    torch.manual_seed(0)
    (BertForMaskedLM if mlm else BertModel)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_folder(folder: Path) -> Path:
    """The six documents as a BEIR folder with the splits train and dev."""
    (folder / "qrels").mkdir(parents=True)
    docs = [{"_id": name, "title": "", "text": text} for name, text in DOCS.items()]
    queries = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    for name, records in (("corpus", docs), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    lines = "".join(f"{query}\t{doc}\t1\n" for query, doc in QRELS.items())
    for split in ("train", "dev"):
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder


def write_config(folder: Path, text: str = "", **sections: str) -> Path:
    """A config for the tiny backbone and collection in `folder`; each section is TOML lines."""
    given = {
        "model": 'lexical = "splade"\ndense = "cls"\nquery_length = 16\nmax_length = 16',
        "data": f'folder = "{folder}/beir"',
        "optimizer": "steps = 12\nbatch = 4\nlr = 1e-3",
        "output": f'folder = "{folder}/out"\nlog_every = 1\ncheckpoint_every = 3',
    } | sections
    lines = [f'backbone = "{folder}/bert"', 'device = "cpu"', text]
    for name, section in given.items():
        lines += [f"[{name}]", section]
    path = folder / "config.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def logged_losses(out: Path) -> dict[int, float]:
    """The loss of each step in a run's log."""
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}
