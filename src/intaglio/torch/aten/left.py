"""Families of operators that are left to PyTorch, each with the reason that reports give."""

from __future__ import annotations

from intaglio.torch.aten.table import COMPLEX, refuse

LAPACK = "PyTorch has LAPACK for decompositions, inverses and solutions of matrices"
SPECIAL = "a special function that PyTorch has by itself"
COUNTS = "PyTorch counts and adds up segments and histograms itself"
DATA = "its sizes depend on data in a way that no operator of ours has"
SPARSE = "sparse tensors are left to PyTorch"

refuse(COMPLEX, "_fft_r2c", "_fft_c2r", "_fft_c2c", "complex", "polar", "view_as_complex", "view_as_real", "angle")
refuse(COMPLEX, "real", "imag", "_conj", "_neg_view", "is_complex", "resolve_conj", "resolve_neg")
refuse(LAPACK, "_linalg_svd", "_linalg_eigh", "_linalg_det", "_linalg_slogdet", "_linalg_solve_ex", "linalg_eig")
refuse(
    LAPACK, "linalg_inv_ex", "linalg_qr", "linalg_cholesky_ex", "linalg_lu", "linalg_lu_factor_ex", "linalg_lu_solve"
)
refuse(LAPACK, "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_householder_product", "linalg_solve_triangular")
refuse(LAPACK, "linalg_matrix_exp", "linalg_pinv.atol_rtol_tensor", "linalg_eigvals", "linalg_lstsq", "geqrf", "ormqr")
refuse(LAPACK, "cholesky", "cholesky_inverse", "cholesky_solve", "lu_unpack", "triangular_solve", "_linalg_eigvals")
refuse(LAPACK, "_linalg_check_errors")
refuse(SPECIAL, "igamma", "igammac", "special_ndtri", "special_airy_ai", "special_spherical_bessel_j0")
refuse(SPECIAL, *(f"special_bessel_{name}" for name in ("j0", "j1", "y0", "y1")))
refuse(
    SPECIAL, *(f"special_{name}_k{order}" for name in ("modified_bessel", "scaled_modified_bessel") for order in "01")
)
refuse(SPARSE, "_to_sparse", "sparse_sampled_addmm", "_sparse_mm_reduce_impl")
refuse(COUNTS, "segment_reduce", "histc", "histogram.bin_ct", "histogram.bins_tensor", "_histogramdd_bin_edges")
refuse(COUNTS, "_histogramdd_from_bin_tensors", "_embedding_bag_forward_only", "_embedding_bag", "hash_tensor")
refuse(DATA, "repeat_interleave.Tensor", "resize", "unique_dim")
