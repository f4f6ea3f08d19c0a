"""The enumerations of ONNX Runtime, with its names and numbers."""

from __future__ import annotations

import enum


class GraphOptimizationLevel(enum.IntEnum):
    """How much a model is rewritten: nothing, only what cannot change rounding, or everything."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether nodes run one after another. They do: `ORT_PARALLEL` is a hint without effect."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """The order of nodes. It is that of the compiled code: the others are hints without effect."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(enum.IntEnum):
    """How memory is allocated."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtCompileApiFlags(enum.IntEnum):
    """Options of `ModelCompiler`, which is refused."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtDeviceMemoryType(enum.IntEnum):
    """Whether the host can read a device's memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(enum.IntEnum):
    """Who made a device."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    """How a device is chosen: `DEFAULT` and `PREFER_CPU` are taken."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtHardwareDeviceType(enum.IntEnum):
    """What a device is."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemType(enum.IntEnum):
    """What memory is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtMemoryInfoDeviceType(enum.IntEnum):
    """Where memory is."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtSparseFormat(enum.IntEnum):
    """How a sparse tensor is stored; there are none here."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4
