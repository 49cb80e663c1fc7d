"""One network while it learns: its batches, rates, running means and statistics."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hnets import nn as hnn
from hnets.models import create_model
from hnets.train import Recipe, Run, Team, task, train
from hnets.train.step import AdamW, Learner, recompute_statistics
from hnets.train.task import Classification, precision_on

TEAM = Team(0, 1, torch.device("cpu"))


def learner(recipe: Recipe) -> Learner:
    torch.manual_seed(1)
    images, labels = torch.rand(50, 1, 28, 28), torch.arange(50) % 10
    model = create_model(recipe.model.name, in_chans=1, num_classes=10)
    return Learner(model, Classification(images, labels), recipe, 1, TEAM)


def test_every_image_is_seen_in_every_epoch_and_all_batches_are_full(
    tiny: Callable[..., Recipe],
) -> None:
    one = learner(tiny())
    assert one.steps == 3
    orders = []
    for epoch in range(2):
        one.begin_epoch(epoch, [1.0] * 3)
        orders.append(one._order.clone())
        assert len(orders[-1]) == 69
        assert set(orders[-1].tolist()) == set(range(50))
    assert not torch.equal(*orders)


def test_each_process_reads_its_share_of_each_batch(tiny: Callable[..., Recipe]) -> None:
    one = learner(tiny())
    one.begin_epoch(1, [1.0] * 3)
    two = []
    for rank in range(2):
        one.team = Team(rank, 2, torch.device("cpu"))
        two.append(list(one._shares(1))[:3])
    assert [len(rows) for rows in two[0]] == [11] * 3
    batches = [torch.cat(shares) for shares in zip(*two, strict=True)]
    assert torch.equal(torch.cat(batches), one._order)


def test_the_rate_of_every_step_is_that_of_the_schedule(tiny: Callable[..., Recipe]) -> None:
    """With Adam's first step each weight moves by the rate, whatever the gradient."""
    one = learner(tiny(optimiser__rate=0.5, optimiser__eps=1e-30))
    bias = one.model.get_parameter("layers.0.0.bias")
    one.begin_epoch(0, [0.01, 0.0, 0.03])
    before = bias.detach().clone()
    one.step()
    moved = (bias.detach() - before).abs()
    torch.testing.assert_close(moved[moved > 0], torch.full_like(moved[moved > 0], 0.005))
    before = bias.detach().clone()
    one.step()
    assert torch.equal(bias.detach(), before), "the rate of the second step is 0"
    one.step()
    assert not torch.equal(bias.detach(), before)


@pytest.mark.parametrize("name", ["hnet_fourier_tiny", "hresnet18_light"])
def test_a_cpu_with_instructions_for_it_learns_in_bfloat16(
    tiny: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    recipe = tiny(model__name=name, training__precision="bfloat16", training__batch=10)
    losses, types = [], set[torch.dtype]()
    for has in (True, False):
        monkeypatch.setattr(task, "cpu_has_bfloat16", lambda has=has: has)
        one = learner(recipe)
        one.model.register_forward_hook(lambda *call: types.add(call[2].dtype))
        one.begin_epoch(0, [1.0] * one.steps)
        for _ in range(one.steps):
            one.step()
        losses.append(torch.tensor(one.end_epoch()))
        assert precision_on(TEAM.device, recipe) == ("bfloat16" if has else "float32")
        assert all(p.dtype == torch.float32 for p in one.model.parameters())
    assert types == {torch.bfloat16, torch.float32}
    assert not torch.equal(*losses)
    torch.testing.assert_close(*losses, rtol=0.1, atol=0)


def test_phases_have_a_rate_of_their_own_and_no_decay(tiny: Callable[..., Recipe]) -> None:
    recipe = tiny(
        model__name="hnet_mnist",
        optimiser__phase_rate=7.8,
        optimiser__weight_decay=0.5,
        optimiser__rate=0.01,
    )
    one = learner(recipe)
    phase = one.model.get_parameter("layers.0.0.filters.phase.0")
    radial = one.model.get_parameter("layers.0.0.filters.radial.0")
    before, weight = phase.detach().clone(), radial.detach().clone()
    one.begin_epoch(0, [1.0] * one.steps)
    one.step()
    moved = (phase.detach() - before).abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 0.078), rtol=1e-2, atol=0)
    step = radial.detach() - weight * (1 - 0.01 * 0.5)
    torch.testing.assert_close(step.abs(), torch.full_like(step, 0.01), rtol=2e-2, atol=0)


def test_the_running_mean_follows_the_weights_and_is_what_is_evaluated(
    tiny: Callable[..., Recipe],
) -> None:
    one = learner(tiny(training__ema=0.9))
    assert one.mean is not None
    assert one.evaluated is one.mean
    start = {k: v.clone() for k, v in one.mean.state_dict().items()}
    one.begin_epoch(0, [1.0] * 3)
    one.step()
    for name, value in one.mean.state_dict().items():
        if value.is_floating_point():
            now = one.model.state_dict()[name]
            torch.testing.assert_close(value, start[name] + 0.9 * (now - start[name]))
    assert not any(p.requires_grad for p in one.mean.parameters())


def test_statistics_are_recomputed_with_the_last_weights(tiny: Callable[..., Recipe]) -> None:
    """They are those of the training images, whatever the running means were."""
    recipe = tiny(
        training__statistics="recomputed",
        training__ema=0.9,
        training__epochs=1,
        model__name="hnet_mnist",
        data__size=12,
    )
    (one,) = train([Run(recipe, 1)], TEAM)
    norms = [part for part in one.model.modules() if isinstance(part, hnn.HBatchNorm2d)]
    before = [norm.running_mean.clone() for norm in norms]
    for norm in norms:
        nn.init.uniform_(norm.running_mean)
    recompute_statistics(one.model, one.run.tasks["train"].inputs())
    assert len(norms) == 3
    for norm, mean in zip(norms, before, strict=True):
        torch.testing.assert_close(norm.running_mean, mean)
        assert norm.momentum == 0.1
    assert not any(part.training for part in one.model.modules())


def test_statistics_are_those_of_all_images_however_they_are_sorted() -> None:
    """Of 1,001, which leave one over, with two classes far apart, one after the other."""
    images = torch.randn(1001, 1, 28, 28)
    images[:500] += 5
    images[500:] -= 5
    norm = nn.BatchNorm2d(1)
    recompute_statistics(norm, Classification(images, torch.zeros(1001).long()).inputs())
    torch.testing.assert_close(norm.running_var, images.var()[None], rtol=1e-2, atol=0)
    torch.testing.assert_close(norm.running_mean, images.mean()[None], rtol=0, atol=1e-2)


def test_a_failed_recomputation_leaves_the_network_as_it_was() -> None:
    net = nn.Sequential(nn.BatchNorm2d(1, momentum=0.3), nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        recompute_statistics(net, [torch.rand(4, 1, 5, 5)])
    assert net[0].momentum == 0.3
    assert net.training


def test_adamw_is_that_of_torch_bit_for_bit(tiny: Callable[..., Recipe]) -> None:
    recipe = tiny(optimiser__weight_decay=0.1, optimiser__phase_rate=7.8).optimiser
    one, other = create_model("hnet_mnist"), create_model("hnet_mnist")
    other.load_state_dict(one.state_dict())
    ours = AdamW(one, recipe)
    groups = [
        {"params": group, "weight_decay": decay, "times": times}
        for group, times, decay in AdamW(other, recipe)._groups
    ]
    betas = (recipe.beta1, recipe.beta2)
    theirs = torch.optim.AdamW(groups, betas=betas, eps=recipe.eps, fused=True)
    x = torch.randn(2, 1, 14, 14)
    for rate in (0.01, 0.02):
        for group in theirs.param_groups:
            group["lr"] = torch.tensor(rate) * group["times"]
        for model, optimiser in ((one, ours), (other, theirs)):
            optimiser.zero_grad()
            model(x).square().sum().backward()
        ours.step(torch.tensor(rate))
        theirs.step()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
