"""The model, its objective and its training, against the engine tests' plain reference where it can say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from models.demo import checkpoint, objective, shape, tokenizer, visibility
from models.demo.data import corpus
from models.demo.data.example import single
from models.demo.decoding import Decoder, JointThreshold, LowConfidence
from models.demo.evaluate import Evaluation
from models.demo.model import Model
from models.demo.noise import Noised, noise
from models.demo.rows import PADDING, Document, Encoder, row
from models.demo.shape import BLOCK_SIZE
from models.demo.train import Settings, Training
from tests.demo.random_model import random_model
from tests.engine.reference import Reference

END, MASK = 1, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.save(random_model(), tokenizer.load(), folder)
    return folder


def test_a_checkpoint_comes_back_as_it_was_saved(folder: Path) -> None:
    saved = load_file(folder / "model.safetensors")
    again = checkpoint.tensors(checkpoint.load(folder))
    assert again.keys() == saved.keys()
    assert all(torch.equal(again[name], saved[name].float()) for name in saved)
    assert all(tensor.dtype == torch.bfloat16 for tensor in saved.values())
    assert "model.layers.1.mlp.experts.7.down_proj.weight" in saved
    assert saved["model.layers.1.mlp.shared_experts.gate_proj.weight"].shape == (32, 96)


def test_the_configuration_names_mask_end_and_block(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert (config["mask_token_id"], config["eos_token_id"], config["block_size"]) == (MASK, END, BLOCK_SIZE)
    assert (folder / "configuration_llada2_moe.py").is_file()


def test_the_demo_model_is_below_40_megabytes() -> None:
    model = Model(shape.config("demo", tokenizer.load()))
    assert sum(tensor.numel() * 2 for tensor in checkpoint.tensors(model).values()) < 40e6


def test_logits_are_the_references(folder: Path) -> None:
    model, reference = checkpoint.load(folder), Reference(folder)
    ids = torch.randint(4096, (3 * BLOCK_SIZE,)).tolist()
    with torch.no_grad():
        hidden = model(
            torch.tensor([ids]),
            torch.arange(len(ids))[None],
            visibility.block_causal(len(ids), torch.device("cpu")),
        )
        logits = model.lm_head(hidden[0, -BLOCK_SIZE:])
    torch.testing.assert_close(logits, reference.logits(ids), rtol=1e-4, atol=1e-3)


def test_decoding_is_the_references(folder: Path) -> None:
    prompts = [torch.randint(3, 4096, (length,)).tolist() for length in (5, 32, 70)]
    decoder, reference = Decoder(checkpoint.load(folder), LowConfidence(0.5)), Reference(folder)
    answers, forwards = decoder.generate(prompts, max_tokens=50)
    for prompt, answer, used in zip(prompts, answers, forwards, strict=True):
        expected = reference.generate(prompt, max_tokens=50, threshold=0.5)
        until_end = expected.token_ids.index(END) if END in expected.token_ids else 50
        assert answer == expected.token_ids[:until_end]
        assert used == expected.forwards or until_end < 50


def rows(*documents: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """A row for each list of (blocks, prompt tokens), in eight blocks."""
    made = [
        [Document(torch.randint(3, 4096, (blocks * BLOCK_SIZE,)).tolist(), prompt) for blocks, prompt in each]
        for each in documents
    ]
    single_rows = [row(each, 8 * BLOCK_SIZE, END) for each in made]
    return {name: torch.stack([each[name] for each in single_rows]) for name in single_rows[0]}


def test_each_position_sees_what_an_engine_would_show_it() -> None:
    """Position by position, from the rule in words."""
    document = rows([(2, 10), (1, 3), (3, 40)], [(8, 9)])["document"]
    tokens = document.shape[1]
    visible = visibility.two_streams(document)
    for sample in range(2):
        for query in range(0, 2 * tokens, 7):
            for key in range(2 * tokens):
                of_query, of_key = document[sample, query % tokens], document[sample, key % tokens]
                query_block, key_block = query % tokens // BLOCK_SIZE, key % tokens // BLOCK_SIZE
                match (query >= tokens, key >= tokens):
                    case (False, False):
                        sees = bool(of_query == of_key) and key_block <= query_block
                    case (False, True):
                        sees = False
                    case (True, False):
                        sees = bool(of_query == of_key) and key_block < query_block
                    case _:
                        sees = key_block == query_block
                assert visible[sample, 0, query, key] == sees


def test_the_sparse_mask_is_the_dense_one() -> None:
    document = rows([(2, 10), (1, 3), (3, 40)], [(8, 9)])["document"]
    places = torch.arange(2 * document.shape[1])
    sees = visibility.two_streams_sparse(document).mask_mod
    for sample in range(2):
        sparse = sees(torch.tensor(sample), torch.tensor(0), places[:, None], places[None, :])
        assert torch.equal(sparse, visibility.two_streams(document)[sample, 0])


def test_a_noised_block_is_seen_as_the_engine_sees_it() -> None:
    """The two-stream forward of a packed row gives what one forward per block gives."""
    model = random_model()
    batch = rows([(1, 5), (3, 40)])
    ids = batch["ids"]
    noised = ids.clone()
    noised[:, 2 * BLOCK_SIZE : 3 * BLOCK_SIZE] = MASK  # the second document's second block
    with torch.no_grad():
        both = model(
            torch.cat([ids, noised], 1),
            torch.cat([batch["position"]] * 2, 1),
            visibility.two_streams(batch["document"]),
        )
        alone = torch.cat(
            [ids[:, BLOCK_SIZE : 2 * BLOCK_SIZE], noised[:, 2 * BLOCK_SIZE : 3 * BLOCK_SIZE]], 1
        )
        seen = model(
            alone, torch.arange(2 * BLOCK_SIZE)[None], visibility.block_causal(2 * BLOCK_SIZE, ids.device)
        )
    start = ids.shape[1] + 2 * BLOCK_SIZE
    torch.testing.assert_close(
        both[:, start : start + BLOCK_SIZE], seen[:, BLOCK_SIZE:], rtol=1e-4, atol=1e-4
    )


def test_documents_are_whole_blocks_that_end() -> None:
    encoder = Encoder(tokenizer.load())
    document = encoder.document(single("What is 1 + 1?", "1 + 1 = 2\nThe answer is 2."))
    assert len(document.ids) % BLOCK_SIZE == 0
    assert document.ids[-1] == END
    answer = document.ids[document.prompt_tokens :]
    written = tokenizer.load().decode(answer[: answer.index(END)])
    assert written == "1 + 1 = 2\nThe answer is 2."
    assert set(answer[answer.index(END) :]) == {END}


def test_noise_leaves_prompts_alone_and_weighs_every_answer_block_alike() -> None:
    batch = rows(*[[(3, 40), (4, 33)]] * 400)
    torch.manual_seed(0)
    noised = noise(batch["ids"], batch["answer"], MASK, 4096)
    prompt = batch["answer"] == 0
    assert torch.equal(noised.ids[prompt], batch["ids"][prompt])
    assert not noised.weights[prompt].any()
    assert (noised.weights[batch["answer"] == 1] > 0).all()
    masked = noised.ids == MASK
    wrong = (noised.ids != batch["ids"]) & ~masked
    assert 0.3 < masked[batch["answer"] == 1].float().mean() < 0.7
    assert 0.02 < wrong[batch["answer"] == 1].float().mean() < 0.2
    assert (noised.weights[wrong] == 1).all()
    # The expected weight of an answer token that may be masked is one.
    of_masks = noised.weights.masked_fill(~masked, 0)[batch["answer"] == 1].mean()
    assert 0.75 < of_masks < 0.95  # 15 % of the blocks hold no mask


def test_padding_counts_nothing() -> None:
    batch = rows([(3, 40)])
    assert (batch["document"][:, 3 * BLOCK_SIZE :] == PADDING).all()
    assert not batch["answer"][:, 3 * BLOCK_SIZE :].any()
    nothing = Noised(batch["ids"], torch.zeros(batch["ids"].shape))
    found = objective.losses(random_model(), batch, nothing, visibility.two_streams(batch["document"]))
    assert found.total == 0


def test_balance_moves_tokens_to_idle_experts() -> None:
    router = random_model().routers()[0]
    router.expert_bias.zero_()
    router.train()
    x = torch.randn(500, 96) + 1

    def spread() -> float:
        router(x)
        return float(router.load.std())

    before = spread()
    for _ in range(100):
        router.balance(0.01)
        spread()
    router.load.zero_()
    assert spread() < before / 2


class FakeModel(nn.Module):  # type: ignore[misc]
    """Stands in for a trained model: sure of one text, whatever it is shown."""

    def __init__(self, text: list[int]) -> None:
        super().__init__()
        self.config = shape.config("toy", tokenizer.load())
        self.text = nn.Parameter(torch.tensor(text), requires_grad=False)
        self.lm_head = nn.Identity()

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        return 20 * nn.functional.one_hot(self.text[positions], 4096).float()


def test_joint_threshold_repairs_wrong_tokens_and_leaves_the_prompt_alone() -> None:
    text = list(range(100, 100 + 2 * BLOCK_SIZE))
    decoder = Decoder(FakeModel(text), JointThreshold(threshold=0.5))
    started = decoder.start([[*text[:32], 7, 7, 7]])
    assert started.open[0].tolist() == [False] * 3 + [True] * 29
    started.ids[0, 20:24] = 8
    filled = decoder.fill(started)
    assert filled.ids[0].tolist() == [7, 7, 7, *text[35:]]
    # One that changes everything, and one that finds nothing to change.
    assert filled.forwards.tolist() == [2]


def test_low_confidence_leaves_what_is_visible() -> None:
    text = list(range(100, 100 + 2 * BLOCK_SIZE))
    decoder = Decoder(FakeModel(text), LowConfidence())
    started = decoder.start([text[:32]])
    started.ids[0, 20:24] = 8
    assert decoder.fill(started).ids[0].tolist() == [*text[32:52], 8, 8, 8, 8, *text[56:]]


def settings(folder: Path, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "folder": folder,
        "minutes": 0.01,
        "size": "toy",
        "skills": ["counting"],
        "row_tokens": 64,
        "batch_rows": 4,
        "learning_rate": 3e-3,
        "data_workers": 0,
        "save_minutes": 1,
        "device": "cpu",
        "seed": 0,
    }
    return Settings(**values | changes)


def test_training_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    first = Training(settings(tmp_path))
    first.run()
    assert first.step > 0
    again = Training(settings(tmp_path, minutes=first.seconds / 60 + 0.01))
    assert (again.step, again.seconds) == (first.step, first.seconds)
    assert all(
        torch.equal(a, b)
        for a, b in zip(again.model.state_dict().values(), first.model.state_dict().values(), strict=True)
    )
    again.run()
    assert again.step > first.step
    assert torch.equal(
        checkpoint.tensors(again.model)["model.norm.weight"].bfloat16(),
        load_file(tmp_path / "checkpoint" / "model.safetensors")["model.norm.weight"],
    )


def test_evaluation_counts_every_item(folder: Path) -> None:
    evaluation = Evaluation(checkpoint.load(folder), max_tokens=64)
    skills = corpus.named(["lists"])
    english, chinese = evaluation.scores(skills, ["LowConfidence 0.5"], 2)
    assert (english.language, chinese.language) == ("en", "zh")
    assert (english.items, english.exact) == (2, 0)
    assert english.forwards > 0
    (repair,) = evaluation.repairs(skills, 1)
    assert repair.planted == 4
    assert repair.repaired <= repair.planted
