// Fabric over NCCL, through the optional CUDA module: all-reduce and point to point between GPUs.
// Values may be in device memory (without a copy) or in host memory. An error of NCCL and abort()
// end an operation with FabricBroken, and so does a lost rank if NCCL reports it; otherwise the
// operation waits for abort(). All operations after a failed one throw the same. NCCL's common id
// travels as rank 0's address. As Fabric: one thread, abort() from any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/cuda/orrery_cuda.h"
#include "live/fabric/joining_fabric.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Options of a fabric over NCCL.
struct NcclOptions {
  int device = 0;
  int max_ctas = 0;  ///< limit of NCCL's thread blocks on the GPU; 0: NCCL's default
  /// File that this process's NCCL_TUNER_PLUGIN reads (live/nccl/tuner.cpp); empty: no plugin.
  std::string table_file = {};
};

/// Returns the module's functions with NCCL loaded; null, with the reason, if the module, driver,
/// device or NCCL is missing or too old. `reason` has no meaning otherwise. The first `library`
/// that a process has loaded stays.
const OrreryCudaTable* find_nccl(const std::string& module_path, std::string& reason,
                                 const std::string& library = "libnccl.so.2");

/// Fabric of live runs on GPUs.
class NcclFabric : public JoiningFabric {
 public:
  /// Opens the device and makes an id, unconnected. Throws an environment Error if the device or
  /// NCCL fails. `module` must outlive the fabric.
  NcclFabric(const OrreryCudaTable& module, const NcclOptions& options);
  ~NcclFabric() override;

  /// Returns "nccl:" and the id, which the other ranks need if this rank is rank 0.
  const std::string& address() const override { return address_; }
  /// Connects as rank `rank` of `addresses.size()` ranks, without a table of collectives, by the id
  /// in addresses[0]; returns when all have joined or abort() is called. `rank` is below
  /// `addresses.size()`. Throws FabricBroken, also if addresses[0] is no id; throws an environment
  /// Error if the plugin's file cannot be written.
  void connect_ranks(std::uint32_t rank, const std::vector<std::string>& addresses) override;

  /// Does nothing.
  void set_link_rate(double) override {}

  /// Returns the rank number; 0 before connect_ranks().
  std::uint32_t rank() const override { return rank_; }
  /// Returns the number of ranks; 0 before connect_ranks().
  std::uint32_t ranks() const override { return ranks_; }
  /// Sums as Fabric::all_reduce(), for all_reduce_integers() too. Throws FabricBroken if NCCL fails
  /// or reports a lost rank, after abort(), and before connect_ranks().
  void all_reduce(std::span<float> values) override;
  void all_reduce_integers(std::span<std::int64_t> values) override;
  /// Sends like Fabric::send_to(), except that the first message opens the links between all ranks:
  /// the first send_to() or receive_from() blocks until every rank has called one of the two. The
  /// caller may change `bytes` after the call. Throws FabricBroken, also for an unknown rank.
  void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override;
  /// Receives as Fabric::receive_from(); the first call as in send_to(). Throws FabricBroken, also
  /// for an unknown rank; bytes that arrived before an error or abort() are lost.
  void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override;
  /// Returns the bytes sent, as NcclComm::bytes_sent(); of this fabric only.
  std::uint64_t bytes_sent() const override;
  /// Ends the operations of this rank as Fabric::abort(); the other ranks do not learn of it.
  void abort(const std::string& reason) override;
  /// Returns 0: NCCL measures none.
  double round_trip() const override { return 0; }

  /// Sets the table of later collectives, through the tuner plugin. Call between two steps, with
  /// the same table on all ranks; a new connection has no table. NCCL chooses where it lacks an
  /// algorithm. Does nothing without a plugin's file; throws an environment Error if the file
  /// cannot be written.
  void use_collectives(const CollectiveTable& table) override;

 private:
  void check_status(int status) const;

  const OrreryCudaTable& module_;
  OrreryComm* comm_ = nullptr;
  std::string address_;
  const std::string table_file_;
  std::uint32_t rank_ = 0, ranks_ = 0;
};

}  // namespace orrery::live
