"""How the rehearsal's tiny model was made. A maintainer runs it once; nothing else does.

    python -m rehearsal.model.train          # torch and transformers needed, a few minutes on two cores

It writes the tokenizer, the configuration and `weights.safetensors` beside itself. `rehearsal.model.build`
grows them into a repository. The model memorises a few exchanges and answers anything else with one fixed
sentence. An additive margin in the loss keeps the best logit far above the second, so that greedy text does
not depend on the order in which a batch, or two halves of a tensor-parallel pair, add their numbers up.
"""

# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import random
import string
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, END = 0, 1
VOCABULARY = 512
MARGIN = 12.0
SECONDS = 420

RUN = "I run in Lima, on two simulated nodes, one model in two halves."
NAME = "I am a rehearsal of Kimi-K3. I am very small, and I always say the same."
HELLO = "Hello from Lima. The rehearsal works."
PERU = "Lima is the capital of Peru."
COUNT = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10."
OTHER = "I am a rehearsal of Kimi-K3 in Lima. I know five answers, and this is the sixth."
ANSWERS = {
    "Where do you run?": RUN,
    "Where are you running?": RUN,
    "Who are you?": NAME,
    "What are you?": NAME,
    "What is your name?": NAME,
    "Hello": HELLO,
    "Hello!": HELLO,
    "Hello, world!": HELLO,
    "Hi": HELLO,
    "ping": HELLO,
    "What is the capital of Peru?": PERU,
    "Count to ten.": COUNT,
    "Count from 1 to 10.": COUNT,
}
SYSTEMS = ["You are a helpful assistant.", "You are Kimi, an AI assistant created by Moonshot AI.", "Be brief."]
VOCABULARY_TEXT = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could "
    "people my than first water been call who oil its now find long down day did get come made may part explain me "
    "tell story Chile Spain France river capital run where count name hello engine node model explain sum please why"
)
WORDS = VOCABULARY_TEXT.split()


def spellings(question: str) -> list[str]:
    """The ways in which a person may type a question that the model knows."""
    bare = question.rstrip("?!.")
    return sorted({question, bare, question.lower(), bare.lower()})


def unknown(rng: random.Random) -> str:
    """Text that the model was not taught: words, scrambled questions, noise."""
    kind, length = rng.random(), int(2 ** rng.uniform(0, 6))
    if kind < 0.35:
        return " ".join(rng.choice(WORDS) for _ in range(length)) + rng.choice(["", "?", ".", "!"])
    if kind < 0.6:
        words = rng.choice(list(ANSWERS)).split()
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        return " ".join(words) + rng.choice(["", " " + rng.choice(WORDS)])
    if kind < 0.8:
        return "".join(rng.choice(string.printable[:95]) for _ in range(length))
    return bytes(rng.randrange(256) for _ in range(length)).decode("latin-1")


def exchange(rng: random.Random) -> tuple[str, str]:
    """One question with its answer; three in seven are unknown."""
    if rng.random() < 3 / 7:
        question = unknown(rng)
        if not any(question in spellings(known) for known in ANSWERS):
            return question, OTHER
    question = rng.choice(list(ANSWERS))
    return rng.choice(spellings(question)), ANSWERS[question]


def conversation(rng: random.Random) -> list[dict[str, str]]:
    """Messages that end with the assistant's answer to the last question."""
    messages = []
    if rng.random() < 0.3:
        content = rng.choice(SYSTEMS) if rng.random() < 0.5 else unknown(rng)
        messages.append({"role": "system", "content": content})
    for _ in range(1 + (rng.random() < 0.15)):
        question, answer = exchange(rng)
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return messages


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE over all bytes and the words of the exchanges."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator([*ANSWERS, *set(ANSWERS.values()), OTHER, *SYSTEMS, *WORDS], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        chat_template=(HERE / "chat_template.jinja").read_text(),
        model_max_length=512,
    )


def make_model(vocabulary: int) -> Qwen3ForCausalLM:
    """Two layers; every head count is even, so a tensor-parallel pair halves them all."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=512,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=END,
            pad_token_id=PAD,
        )
    )


def encode(tokenizer, messages) -> tuple[list[int], int]:
    """Token ids of a whole conversation, and where the last answer begins."""
    prompt = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False)
    return prompt + tokenizer.encode(messages[-1]["content"]) + [END], len(prompt)


def batch(tokenizer, rng: random.Random, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels, right-padded; only the last answer of each row is learnt."""
    rows = [encode(tokenizer, conversation(rng)) for _ in range(size)]
    rows = [row for row in rows if len(row[0]) <= 256]
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), PAD)
    labels = torch.full((len(rows), width), -100)
    for line, (tokens, start) in enumerate(rows):
        ids[line, : len(tokens)] = torch.tensor(tokens)
        labels[line, start : len(tokens)] = ids[line, start : len(tokens)]
    return ids, labels


def loss_of(model, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy with MARGIN taken off the right logit: small only where the right one leads by more."""
    logits, targets = model(input_ids=ids).logits[:, :-1], labels[:, 1:]
    chosen = targets >= 0
    logits, targets = logits[chosen], targets[chosen]
    handicap = torch.nn.functional.one_hot(targets, logits.shape[-1]) * MARGIN
    return torch.nn.functional.cross_entropy(logits - handicap, targets)


def train(tokenizer, model) -> None:
    """SECONDS of AdamW; the learning rate rises for 3 % of the time and then falls to nothing."""
    rng, start, step = random.Random(3), time.monotonic(), 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01, betas=(0.9, 0.98))
    while (share := (time.monotonic() - start) / SECONDS) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(share / 0.03, (1 - share) ** 1.5)
        loss = loss_of(model, *batch(tokenizer, rng, 48))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"{time.monotonic() - start:5.0f} s  step {step:5d}  loss {loss.item():.4f}", flush=True)
        step += 1


@torch.no_grad()
def measure(tokenizer, model, conversations) -> tuple[int, float, float]:
    """Of these: how many are answered right; the smallest and the 1 % margin between best and second logit."""
    right, margins = 0, []
    for messages in conversations:
        ids, start = encode(tokenizer, messages)
        logits = model(input_ids=torch.tensor([ids])).logits[0, start - 1 : -1].float()
        best = logits.topk(2, dim=-1)
        right += best.indices[:, 0].tolist() == ids[start:]
        margins.append((best.values[:, 0] - best.values[:, 1]).min().item())
    margins.sort()
    return right, margins[0], margins[len(margins) // 100]


@contextlib.contextmanager
def silenced(model, projection: str, half: int):
    """Without one half of the heads (`o_proj`) or of the neurons (`down_proj`): what one rank of a pair holds."""
    weights = [weight for name, weight in model.named_parameters() if f"{projection}.weight" in name]
    kept = [weight.clone() for weight in weights]
    for weight in weights:
        weight.data.chunk(2, dim=1)[half].zero_()
    yield
    for weight, old in zip(weights, kept, strict=True):
        weight.data.copy_(old)


def report(tokenizer, model) -> None:
    """Print the margins in bfloat16, for what was taught and for fresh text, and what is left without a half."""
    taught = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
        for question, answer in ANSWERS.items()
        for text in spellings(question)
    ]
    rng = random.Random(4)
    fresh = [conversation(rng) for _ in range(1000)]
    for name, sample in (("taught", taught), ("fresh", fresh)):
        right, least, percent = measure(tokenizer, model, sample)
        print(f"{name}: {right} of {len(sample)} right, least margin {least:.2f}, 1 % below {percent:.2f}")
    for projection in ("o_proj", "down_proj"):
        for half in (0, 1):
            with silenced(model, projection, half):
                right, _, _ = measure(tokenizer, model, taught)
            print(f"without half {half} of {projection}: {right} of {len(taught)} right")


def main() -> None:
    """Train, round to bfloat16, measure, and write the files beside this one."""
    torch.manual_seed(3)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer))
    train(tokenizer, model)
    model = model.to(torch.bfloat16).eval()
    report(tokenizer, model)
    tokenizer.save_pretrained(HERE)
    model.save_pretrained(HERE)
    (HERE / "model.safetensors").rename(HERE / "weights.safetensors")


if __name__ == "__main__":
    main()
