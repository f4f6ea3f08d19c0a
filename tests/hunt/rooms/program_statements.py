"""The statements of random programs, as templates; see `program_slots` for the gaps."""

from __future__ import annotations


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


VIEWS = _lines("""
<new> = <a>.transpose(<d>, <d>)
<new> = <a>.permute(<perm>)
<new> = <a2>.t()
<new> = <a>.mT
<new> = <a>[<index>]
<new> = <a>[<index>]
<new> = <a>[<index>]
<new> = <a>[<slice>]
<new> = <a>.unsqueeze(<d>)
<new> = <a>.squeeze(<d>)
<new> = <a>.squeeze()
<new> = <a>.flatten(<d>, <d>)
<new> = <a>.flatten()
<new> = <a>.reshape(<shape>)
<new> = <a>.reshape(<shape>)
<new> = <a>.view(<shape>)
<new> = <a>.narrow(<d>, 1, 1)
<new> = <a>.narrow(0, <at>, 1)
<new> = <a>.select(<d>, 0)
<new> = <a>.select(0, <at>)
<new> = <a>.expand(<wide>)
<new> = <a>.expand_as(<like>)
<new> = <a2>.diagonal(<w>)
<new> = <a>.diagonal(<w>, <d>, <d>)
<new> = <a>.unfold(<d>, 2, 1)
<new> = <a>.unfold(<d>, 1, 2)
<new> = <a>.as_strided(<strided>)
<new> = <a>.movedim(<d>, <d>)
<new> = <a>.split(1, <d>)[0]
<new> = <a>.split(2, <d>)[-1]
<new> = <a>.chunk(2, <d>)[-1]
<new> = <a>.tensor_split(2, <d>)[1]
<new> = <a>.unbind(<d>)[0]
<new> = <a>.unbind()[-1]
<new> = <a>.view_as(<same>)
<new> = <a>.detach()
<new> = <a>.contiguous()
<new> = <a>.clone()
<new> = <a4>.contiguous(memory_format=torch.channels_last)
<new> = <f>.view(torch.int32)
<new> = <f>.view(torch.int16)
<new> = <a>.unflatten(0, (-1, 1))
<new> = <a>.unflatten(<d>, (1, -1))
<new> = <a>.ravel()
<new>, <new> = <a>.chunk(2, <d>)
<new>, <new> = <a>.split([1, <h>.shape[0] - 1])
<new>, <new> = <a>.hsplit(2)
<new> = <a>.repeat(2, *[1] * (<h>.ndim - 1))
<new> = <a>.tile(2)
<new> = <a>.broadcast_to(<wide>)
""")

WRITES = _lines("""
<v>.add_(<like>)
<v>.sub_(<like>)
<v>.mul_(<like>)
<v>.mul_(<c>)
<v>.add_(<c>)
<v>.add_(<like>, alpha=2)
<f>.div_(<like>)
<f>.div_(<c>)
<a>.copy_(<like>)
<a>.copy_(<ten>)
<a>.zero_()
<a>.fill_(<c>)
<v>.clamp_(-1, 1)
<v>.clamp_(min=<c>)
<a>.masked_fill_(<mask>, <w>)
<f>.masked_fill_(<mask>, -float('inf'))
<a>[<index>] = <c>
<a>[<index>] = <w>
<v>[<index>] += <c>
<v>[<index>] *= <w>
<v>[<index>] = <h>[<index>]
<v>[<slice>] = <h>[<slice>]
<v>[<index>] = <like>
<v>[<mask>] = <c>
<v>[<mask>] = <h>[<mask>] * 2
<v>[<places>] = <w>
<v>[<places>] += <w>
<a>.index_fill_(<d>, torch.tensor([0]), <w>)
<v>.index_add_(0, <places>, <h>[<places>])
<v>.index_copy_(0, torch.arange(<h>.shape[0] - 1, -1, -1), <h>.clone())
<v>.index_put_((<places>,), torch.ones((), dtype=<h>.dtype), accumulate=True)
<v>.scatter_(<d>, torch.zeros_like(<h>, dtype=torch.int64), <w>)
<v>.scatter_add_(<d>, torch.zeros_like(<h>, dtype=torch.int64), <h>.clone())
<a>.transpose_(<d>, <d>)
<a>.unsqueeze_(<d>)
<a>.squeeze_()
<a2>.t_()
<f>.<sign>_()
<f>.<sign>_()
<f>.sigmoid_()
<f>.sqrt_()
<f>.round_()
<f>.normal_()
<f>.uniform_(-1, 1)
<f>.bernoulli_(0.5)
<f>.exponential_()
<v>.random_(0, 5)
<v>.pow_(2)
<v2>.tril_()
<v2>.triu_(1)
<v>.cumsum_(<d>)
<a2>.fill_diagonal_(<w>)
<b>.logical_not_()
<i>.bitwise_and_(3)
<i>.floor_divide_(2)
<i>.remainder_(3)
<f>.addcmul_(<same>, <same>, value=0.5)
<f>.lerp_(<same>, 0.25)
<f>.nan_to_num_(0.5)
torch.add(<v>, <like>, out=<h>)
torch.sin(<f>, out=<h>)
<v>.view(-1)[0] = <w>
<v>.t().add_(<w>)
<v>[<index>].mul_(<c>)
<v>[<index>].copy_(<like>)
<f>[<index>].<sign>_()
<v>.flatten()[<slice>].add_(<w>)
<v>.view(-1)[<slice>].add_(<w>)
<v>.unsqueeze(0).transpose(0, 1).sub_(<w>)
<v>.add_(<h>)
<v>.expand_as(<h>).mul_(2)
""")

POINTS = _lines("""
<new> = <v> + <like>
<new> = <v> - <like>
<new> = <v> * <like>
<new> = <v> / <like>
<new> = <v> // <like>
<new> = <v> % <like>
<new> = <v> ** 2
<new> = <v> ** <c>
<new> = <c> - <v>
<new> = <c> / <v>
<new> = <f>.<sign>()
<new> = <f>.<sign>()
<new> = -<v>
<new> = <v>.abs()
<new> = <v>.sign()
<new> = <v>.sqrt()
<new> = <v>.exp()
<new> = <v>.log1p()
<new> = <v>.reciprocal()
<new> = <v>.rsqrt()
<new> = <f>.frac()
<new> = <f>.trunc()
<new> = <f>.round(decimals=1)
<new> = <v>.square()
<new> = <v>.clamp(<c>, 2)
<new> = <v>.clamp(max=<c>)
<new> = torch.clamp(<v>, min=<like>)
<new> = torch.maximum(<v>, <same>)
<new> = torch.minimum(<v>, <same>)
<new> = torch.fmax(<v>, <same>)
<new> = torch.where(<mask>, <h>, <like>)
<new> = torch.where(<a> > 0, <like>, <c>)
<new> = torch.where(<mask>, <c>, <c>)
<new> = <v> > <like>
<new> = <v> == <like>
<new> = <v> != <same>
<new> = <b> & <mask>
<new> = <b> | <same>
<new> = ~<b>
<new> = <b> ^ <b>
<new> = <i> & 5
<new> = <i> | <i>
<new> = <i> ^ 3
<new> = ~<i>
<new> = <i> << 2
<new> = <i> >> 1
<new> = torch.logical_and(<a>, <same>)
<new> = torch.isnan(<a>)
<new> = torch.isinf(<v>)
<new> = <f>.nan_to_num(1.0, 2.0, -2.0)
<new> = torch.fmod(<v>, <like>)
<new> = torch.remainder(<v>, <like>)
<new> = torch.floor_divide(<v>, <c>)
<new> = torch.div(<v>, <like>, rounding_mode='trunc')
<new> = torch.div(<v>, <like>, rounding_mode='floor')
<new> = torch.atan2(<f>, <same>)
<new> = torch.hypot(<f>, <same>)
<new> = torch.lerp(<f>, <same>, 0.3)
<new> = torch.addcmul(<v>, <same>, <same>, value=<w>)
<new> = torch.addcdiv(<f>, <same>, <same>, value=0.5)
<new> = torch.add(<v>, <like>, alpha=<w>)
<new> = torch.rsub(<v>, <like>)
<new> = torch.copysign(<f>, <c>)
<new> = torch.heaviside(<f>, torch.tensor(0.5, dtype=<h>.dtype))
<new> = torch.xlogy(<f>, <same>)
<new> = torch.logaddexp(<f>, <same>)
<new> = <v>.to(<dt>)
<new> = <v>.to(<dt>)
<new> = <a>.to(<dt>)
<new> = <a>.type_as(<a>)
<new> = <b>.float()
<new> = <a>.long()
<new> = <f>.half().float()
<new> = F.relu(<f>)
<new> = F.gelu(<f>)
<new> = F.gelu(<f>, approximate='tanh')
<new> = F.silu(<f>)
<new> = F.softplus(<f>)
<new> = F.elu(<f>, <c>)
<new> = F.leaky_relu(<f>, 0.1)
<new> = F.hardswish(<f>)
<new> = F.hardtanh(<f>, -0.5, 0.5)
<new> = F.mish(<f>)
<new> = F.logsigmoid(<f>)
<new> = F.hardshrink(<f>)
<new> = F.threshold(<f>, 0.1, <c>)
<new> = F.glu(<f>, <d>)
<new> = F.prelu(<f>, torch.tensor([0.25], dtype=<h>.dtype))
<new> = torch.special.expit(<f>)
<new> = torch.erf(<f>)
<new> = <f>.logit(0.1)
<new> = <f> + <ten>
<new> = <v> * <ten>
<new> = <v> + torch.tensor(<c>)
<new> = <v> * torch.tensor(<w>)
""")

REDUCTIONS = _lines("""
<new> = <v>.sum()
<new> = <v>.sum(<d>)
<new> = <v>.sum(<d>, keepdim=<flag>)
<new> = <v>.sum(<axes>, keepdim=<flag>)
<new> = <v>.sum(<d>, dtype=<dt>)
<new> = <b>.sum(<d>)
<new> = <f>.mean(<axes>, keepdim=<flag>)
<new> = <f>.mean()
<new> = <i>.float().mean(<d>)
<new> = <v>.prod(<d>)
<new> = <v>.prod()
<new> = <v>.amax(<axes>, keepdim=<flag>)
<new> = <v>.amin(<d>)
<new> = <v>.max()
<new> = <v>.min(<d>).values
<new> = <f>.max(<d>, keepdim=<flag>).indices
<new>, <new> = <f>.max(<d>)
<new>, <new> = torch.min(<f>, <d>, keepdim=<flag>)
<new> = <f>.argmax(<d>, keepdim=<flag>)
<new> = <f>.argmin()
<new> = <f>.var(<d>)
<new> = <f>.var(<axes>, correction=0, keepdim=<flag>)
<new> = <f>.std(<d>, unbiased=<flag>)
<new>, <new> = torch.var_mean(<f>, <d>, correction=0)
<new> = <f>.norm()
<new> = <f>.norm(dim=<d>, p=1)
<new> = torch.linalg.vector_norm(<f>, ord=2, dim=<d>, keepdim=<flag>)
<new> = torch.linalg.vector_norm(<f>, ord=float('inf'), dim=<d>)
<new> = <f>.logsumexp(<d>)
<new> = <a>.any(<d>)
<new> = <a>.all(<d>, keepdim=<flag>)
<new> = <a>.any()
<new> = <a>.all()
<new> = torch.count_nonzero(<a>, <d>)
<new> = <v>.cumsum(<d>)
<new> = <v>.cumprod(<d>)
<new> = <b>.cumsum(<d>)
<new>, <new> = <f>.cummax(<d>)
<new> = <f>.logcumsumexp(<d>)
<new> = <f>.nansum(<d>)
<new> = <f>.nanmean()
<new>, <new> = <f>.aminmax(dim=<d>)
<new> = <f>.median(<d>).values
<new> = <f>.median()
<new> = <f>.diff(dim=<d>)
<new> = torch.trapezoid(<f>, dim=<d>)
<new> = <f>.softmax(<d>)
<new> = <f>.log_softmax(<d>)
<new> = <f>.softmax(<d>, dtype=<ft>)
<new> = <a2>.trace()
<new> = torch.dist(<f>, <same>)
<new> = F.normalize(<f>, dim=<d>)
<new> = F.cosine_similarity(<f>, <same>, dim=<d>)
<new> = F.mse_loss(<f>, <same>)
<new> = F.l1_loss(<f>, <same>, reduction='none')
<new> = F.smooth_l1_loss(<f>, <same>, reduction='sum')
<new> = F.binary_cross_entropy_with_logits(<f>, <h>.detach().sigmoid())
<new> = F.cross_entropy(<f2>, torch.zeros(<h>.shape[0], dtype=torch.int64))
<new> = F.kl_div(<f>.log_softmax(<d>), <h>.softmax(<d>), reduction='sum')
""")

CHOICES = _lines("""
<new> = torch.cat([<a>, <same>], <d>)
<new> = torch.cat([<a>, <h>[<slice>]])
<new> = torch.cat([<a>, <h>, <same>], <d>)
<new> = torch.stack([<a>, <same>], <d>)
<new> = torch.stack((<a>, <h> * 2, <same>))
<new> = torch.hstack([<a>, <same>])
<new> = <a>[<places>]
<new> = <a>[..., <places>]
<new> = <a>[:, <places>]
<new> = <a>[<places>, <places>]
<new> = <a>[<mask>]
<new> = <a>[<mask>].sum()
<new> = <a>.index_select(<d>, torch.tensor([0, 0]))
<new> = <a>.index_select(0, <places>)
<new> = <a>.gather(<d>, torch.zeros_like(<h>, dtype=torch.int64))
<new> = <v>.gather(<d>, <h>.argsort(<d>, stable=True))
<new> = <a>.take_along_dim(<h>.argsort(<d>, stable=True), <d>)
<new> = <a>.take(torch.tensor([0, -1]))
<new> = <v>.scatter(<d>, <h>.argsort(<d>, stable=True), <same>)
<new> = <v>.scatter_add(<d>, <h>.argsort(<d>, stable=True), <h>)
<new> = <f>.scatter_reduce(<d>, torch.zeros_like(<h>, dtype=torch.int64), <h>, 'amax', include_self=<flag>)
<new> = <f>.scatter_reduce(<d>, torch.zeros_like(<h>, dtype=torch.int64), <h>, 'mean', include_self=<flag>)
<new> = <v>.index_add(0, <places>, <h>[<places>])
<new> = <v>.index_add(0, <places>, <h>[<places>], alpha=2)
<new> = <a>.index_fill(<d>, torch.tensor([0, -1]), <w>)
<new> = <a>.masked_fill(<mask>, <w>)
<new> = <a>.masked_select(<mask>)
<new> = <v>.masked_scatter(<mask>, <h>.flatten())
<new>, <new> = <v>.sort(<d>, stable=True)
<new>, <new> = <v>.sort(<d>, descending=True, stable=True)
<new> = <f>.topk(1, <d>).values
<new> = <v>.topk(2, <d>, largest=<flag>).values
<new> = <f>.kthvalue(1, <d>).values
<new> = <v>.argsort(<d>, descending=<flag>, stable=True)
<new> = <a>.flip(<axes>)
<new> = <a>.flip(0)
<new> = <a>.roll(<w>, <d>)
<new> = <a>.roll(1)
<new> = <a>.rot90(1, (0, 1))
<new> = <a>.repeat_interleave(2, <d>)
<new> = <a>.tril(<w>)
<new> = <a>.triu()
<new> = torch.diag(<a>)
<new> = torch.diag_embed(<v>)
<new> = <a>.nonzero()
<new> = <i>.unique()
<new> = F.pad(<v>, <pads>)
<new> = F.pad(<v>, <pads>, value=<w>)
<new> = F.pad(<f>, <pads>, mode='replicate')
<new> = F.pad(<f>, (1, 1), mode='reflect')
<new> = F.pad(<f>, (1, 0), mode='circular')
<new> = F.one_hot(<i> % 3, 3)
<new> = torch.bucketize(<f>, torch.tensor([-1.0, 0.0, 1.0]))
<new> = torch.isin(<i>, torch.tensor([1, 2]))
<new> = torch.cartesian_prod(<a1>, <a1>)
<new>, <new> = torch.meshgrid(<a1>, <a1>, indexing='ij')
<new> = torch.einsum('...i,...j->...ij', <f>, <same>)
<new> = <f>.slice_scatter(<h>[1:] * 2, 0, 1)
<new> = <f>.select_scatter(<h>[0] + 1, 0, 0)
<new> = <a>.swapaxes(0, -1).contiguous()
<new> = torch.squeeze(<a>[None], 0)
""")

MAKERS = _lines("""
<new> = torch.tensor([1.0, 2.0, -1.0])
<new> = torch.tensor([[1, 2], [3, 4]])
<new> = torch.tensor(<c>)
<new> = torch.tensor([<c>, <c>])
<new> = torch.tensor([True, False])
<new> = torch.arange(<a>.shape[0])
<new> = torch.arange(<w>, <a>.shape[0] + 3, 2)
<new> = torch.arange(0.5, 3, 0.5)
<new> = torch.zeros(<a>.shape[0], 3)
<new> = torch.zeros(<a>.shape, dtype=<dt>)
<new> = torch.ones_like(<a>)
<new> = torch.ones_like(<a>, dtype=<dt>)
<new> = torch.full((<a>.shape[0],), <c>)
<new> = torch.full_like(<a>, <w>)
<new> = <a>.new_zeros(<h>.shape[0], 2)
<new> = <a>.new_full((2, <h>.shape[0]), <w>)
<new> = <a>.new_tensor([1, 0, 2])
<new> = torch.eye(<a>.shape[0])
<new> = torch.linspace(-1, 1, <a>.shape[0])
<new> = torch.rand(<a>.shape[0], 2)
<new> = torch.randn(<a>.shape)
<new> = torch.rand_like(<f>)
<new> = torch.randn_like(<f>)
<new> = torch.randint(0, 9, (<a>.shape[0], 2))
<new> = torch.randint_like(<v>, 0, 5)
<new> = torch.randperm(<a>.shape[0])
<new> = torch.bernoulli(<f>.detach().sigmoid())
<new> = torch.normal(0.0, 1.0, (3,))
<new> = F.dropout(<f>, <p>)
<new> = F.dropout(<f>.transpose(0, -1), 0.5)
<new> = F.dropout(<f>, 0.5, training=False)
<new> = F.alpha_dropout(<f>, 0.3, training=True)
<new> = F.dropout2d(<f4>, 0.5)
<new> = torch.ones(2, <a>.shape[0]).tril()
<new> = torch.empty_like(<a>).copy_(<h>)
<new> = torch.empty(<a>.shape[0], 2).fill_(<c>)
<new> = torch.as_tensor(<c>)
<new> = torch.tril_indices(3, 3)
""")

NUMBERS = _lines("""
<new> = <a>.shape[<d>]
<new> = <a>.shape[0] // 2 + 1
<new> = <a>.numel()
<new> = <a>.shape[0] / 2
<new> = <a>.size(-1) * 0.5
<new> = <i>.sum().item()
<new> = int(<i>.max())
<new> = float(<f>.detach().max())
<new> = <b>.any().item()
<new> = len(<a>)
<new> = <a>.shape[0] ** -0.5
<new> = <f>.stride(0)
<new> = max(<a>.shape[0], 3)
""")

FLOW = _lines("""
<new> = <v> * 2 if <h>.shape[0] > 3 else <h> + 1
<new> = sum(part.sum() for part in <v>.split(2))
<new> = [part * 2 for part in <v>.unbind()][-1]
<new> = <v> if <i>.sum().item() > 2 else <same>
<new> = <a>
<new> = <v> + (<a>.shape[0] if <flag> else <c>)
<new> = (lambda x: x + x)(<v>)
<new> = torch.stack([row.sum() for row in <v>])
""")

PRODUCTS = _lines("""
<new> = <f2> @ <h>.t()
<new> = <f2>.t() @ <h>
<new> = <f> @ <same>.transpose(-1, -2)
<new> = torch.matmul(<f>, <h>.mT)
<new> = <f> @ <f>
<new> = torch.mm(<f2>, <f2>.t())
<new> = torch.bmm(<f3>, <h>.transpose(1, 2))
<new> = torch.outer(<f1>, <f1>)
<new> = torch.dot(<f1>, <h>)
<new> = torch.mv(<f2>, <h>[0])
<new> = torch.addmm(<f2>, <h>, <h>.t() @ <h>, beta=0.5, alpha=2)
<new> = torch.baddbmm(<f3>, <h> @ <h>.mT, <h>)
<new> = torch.einsum('ij,ij->i', <f2>, <same>)
<new> = torch.einsum('ij,kj->ik', <f2>, <f2>)
<new> = torch.einsum('bij,bkj->bki', <f3>, <f3>)
<new> = torch.einsum('ii->i', <f2> @ <h>.t())
<new> = torch.tensordot(<f>, <h>, <h>.ndim)
<new> = torch.kron(<f2>, <ten>)
<new> = torch.cdist(<f2>, <h>)
<new> = F.linear(<f2>, <h>)
<new> = F.linear(<f>, torch.ones(3, <h>.shape[-1], dtype=<h>.dtype), torch.ones(3, dtype=<h>.dtype))
<new> = F.scaled_dot_product_attention(<f3>, <h>, <h>)
<new> = F.scaled_dot_product_attention(<f3>, <h>, <h>, is_causal=True)
<new> = F.scaled_dot_product_attention(<f4>, <h>, <h>, attn_mask=torch.eye(<h>.shape[-2]).tril(<w>) > 0)
<new> = F.scaled_dot_product_attention(<f4>, <h>, <h>, attn_mask=torch.ones(<h>.shape[-2], 1).tril(<w>))
<new> = F.scaled_dot_product_attention(<f4>, <h>, <h>, scale=0.3)
<new> = (<f2> @ <h>.t()).masked_fill(torch.ones(<h>.shape[0], <h>.shape[0]).triu(1).bool(), -1e9).softmax(-1)
<new> = F.conv1d(<f3>, torch.ones(2, <h>.shape[1], 2, dtype=<h>.dtype), padding=1)
<new> = F.conv2d(<f4>, torch.full((2, <h>.shape[1], 3, 3), 0.5, dtype=<h>.dtype), padding=1, stride=2)
<new> = F.conv2d(<f4>, torch.ones(<h>.shape[1], 1, 2, 2, dtype=<h>.dtype), groups=<h>.shape[1], dilation=2)
<new> = F.conv_transpose2d(<f4>, torch.ones(<h>.shape[1], 2, 2, 2, dtype=<h>.dtype), stride=2)
<new> = F.max_pool2d(<f4>, 2, 1)
<new> = F.max_pool2d(<f4>, 3, 2, 1, ceil_mode=<flag>)
<new> = F.avg_pool2d(<f4>, 2, count_include_pad=<flag>, padding=1)
<new> = F.avg_pool1d(<f3>, 2, 1, ceil_mode=<flag>)
<new> = F.max_pool1d(<f3>, 2, 1)
<new> = F.adaptive_avg_pool2d(<f4>, 2)
<new> = F.adaptive_avg_pool2d(<f4>, (1, 1))
<new> = F.adaptive_max_pool2d(<f4>, 2)
<new> = F.interpolate(<f4>, scale_factor=2, mode='nearest')
<new> = F.interpolate(<f4>, size=(5, 3), mode='bilinear', align_corners=<flag>)
<new> = F.pixel_shuffle(<f4>, 2)
<new> = F.pixel_unshuffle(<f4>, 2)
<new> = F.unfold(<f4>, 2)
<new> = F.layer_norm(<f>, <h>.shape[-1:])
<new> = F.layer_norm(<f>, <h>.shape[1:], eps=1e-3)
<new> = F.rms_norm(<f>, <h>.shape[-1:])
<new> = F.group_norm(<f>, 2)
<new> = F.group_norm(<f3>, 1, torch.ones(<h>.shape[1], dtype=<h>.dtype))
<new> = F.instance_norm(<f3>)
<new> = F.batch_norm(<f>, None, None, training=True)
<new> = F.local_response_norm(<f3>, 2)
<new> = F.embedding(<i>.abs() % 3, <f2>)
<new> = F.embedding(torch.tensor([[0, 1], [1, 0]]), <f2>)
<new> = F.grid_sample(<f4>, torch.zeros(<h>.shape[0], 2, 2, 2, dtype=<h>.dtype), align_corners=<flag>)
<new> = F.channel_shuffle(<f4>, 2)
""")

LAYERS = _lines("""
nn.Linear({-1}, 5) | <f>
nn.Linear({-1}, 3, bias=False) | <f>
nn.BatchNorm1d({1}) | <f2>
nn.BatchNorm1d({1}) | <f3>
nn.BatchNorm2d({1}) | <f4>
nn.BatchNorm1d({1}, affine=False, momentum=None) | <f2>
nn.LayerNorm({-1}) | <f>
nn.GroupNorm(1, {1}) | <f3>
nn.InstanceNorm1d({1}, affine=True, track_running_stats=True) | <f3>
nn.Conv1d({1}, 4, 3, padding=1) | <f3>
nn.Conv2d({1}, 4, 3, padding=1) | <f4>
nn.Conv2d({1}, 2, 1, bias=False) | <f4>
nn.Conv2d({1}, {1}, 3, groups={1}, padding='same') | <f4>
nn.ConvTranspose1d({1}, 3, 2, stride=2) | <f3>
nn.Embedding(7, 4) | <i> % 7
nn.Embedding(5, 3, padding_idx=0) | <i>.abs() % 5
nn.EmbeddingBag(6, 3) | <i2> % 6
nn.LSTM({-1}, 4, batch_first=True) | <f3>
nn.LSTM({-1}, 3, num_layers=2, bidirectional=True) | <f3>
nn.GRU({-1}, 4) | <f3>
nn.RNN({-1}, 3, batch_first=True) | <f3>
nn.Dropout(0.4) | <f>
nn.Dropout2d(0.5) | <f4>
nn.AlphaDropout(0.2) | <f>
nn.PReLU({1}) | <f3>
nn.MultiheadAttention({-1}, 1, batch_first=True) | <f3>, <h>, <h>
nn.TransformerEncoderLayer({-1}, 1, 8, dropout=0.1, batch_first=True) | <f3>
nn.Sequential(nn.Linear({-1}, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)) | <f>
nn.MaxPool2d(2) | <f4>
nn.Softmax(-1) | <f>
nn.Flatten() | <f>
nn.Bilinear({-1}, {-1}, 2) | <f2>, <h>
nn.Hardtanh(inplace=True) | <f>
""")
"""Layers with sizes of the first tensor in braces, and what they are called with."""

BUFFERS = _lines("""
nn.Buffer(torch.zeros(3)) | {}.add_(<f>.detach().mean())
nn.Buffer(torch.zeros(())) | {} += 1
nn.Buffer(torch.ones(2, 3)) | {}.mul_(0.9).add_(<f>.detach().sum(), alpha=0.1)
nn.Buffer(torch.zeros(4, dtype=torch.int64)) | {}[1] += <a>.shape[0]
nn.Buffer(torch.zeros(3)) | {}.copy_({} * 2 + 1)
nn.Buffer(torch.arange(6.0).reshape(2, 3)) | {}.t()[0] = <f>.detach().max()
nn.Buffer(torch.zeros(2)) | {} = {} + 1
nn.Parameter(torch.ones(3)) | <new> = {} * 2
nn.Parameter(torch.ones(1)) | <new> = <f> * {}
nn.Parameter(torch.randn(2, 3)) | <new> = {}.t()
nn.Buffer(torch.ones(2, 3)) | <new> = {}[0]
nn.Buffer(torch.ones(4)) | <new> = {}
nn.Buffer(torch.randn(2, 2)) | <new> = {} + <w>
""")
"""Tensors that a module holds, and a statement with them in the place of braces."""

FAMILIES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (22, VIEWS),
    (20, WRITES),
    (20, POINTS),
    (12, REDUCTIONS),
    (12, CHOICES),
    (6, MAKERS),
    (4, NUMBERS),
    (2, FLOW),
    (10, PRODUCTS),
    (4, LAYERS),
    (4, BUFFERS),
)
"""The families of statements, each with its weight."""
