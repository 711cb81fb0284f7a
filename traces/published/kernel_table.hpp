// Reader of the table of a node's own kernel measurements. Called by `orrery calibrate --kernels`.
// Thread-safe: no state. The columns are `gpu`, `op`, `peak_tflops`, `efficiency` and `shape`,
// where `shape` has the arguments of the call ("b=1, m=4096, k=8192, n=10240, layout=TN"), and a
// time is FLOPs / (peak x efficiency). The conventions are those of SimuMax's system files
// (MooreThreads/SimuMax, simu_tools/efficency_test):
//
// - matmul: 2 b m n k FLOPs; layout TN is the forward product, NN the gradient of its data, NT that
//   of its weights.
// - group_matmul: 2 ng M N K FLOPs, always with the shape of the forward product.
// - sdp_fwd, sdp_bwd: causal attention, counted whole: batch x seq_len^2 x heads x (qk + v) FLOPs,
//   twice forward and five times backward.
// - bandwidth:*: shares of `gbps` GiB/s; network:*: a share of `gbps` GiB/s and microseconds of a
//   round and of a call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "topologies/kernels.pb.h"

namespace orrery {

/// Measurements of one GPU model of a table, and the numbers of the table's rows.
struct KernelTable {
  KernelMeasurements measured;
  std::size_t used = 0;     ///< rows that became measurements
  std::size_t ignored = 0;  ///< rows between nodes, or without an efficiency
};

/// Returns the measurements of the GPU `gpu`; of the only GPU of the table if `gpu` is empty.
/// `path` is for messages. Throws bad_input at the place of a missing column or key, of a text that
/// is no number above 0, of an unknown operation (with the nearest name); for a table of several
/// GPUs if `gpu` is empty, a GPU that the table or the catalogue lacks, and a table without
/// measurements.
KernelTable read_kernel_table(const std::string& path, std::string_view text,
                              const std::string& gpu = {});

}  // namespace orrery
