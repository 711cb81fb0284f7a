// Fabric over NCCL, through the optional CUDA module: all-reduce and point to point between GPUs.
// Values may lie in device memory (no copy is made then) or in host memory. A rank that is gone, an
// error of NCCL's and abort() all end an operation as FabricBroken. The id that NCCL's ranks need
// in common travels as rank 0's address. As Fabric: one thread, abort() from any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/cuda/orrery_cuda.h"
#include "live/fabric/joining_fabric.hpp"
#include "traces/training/collective.hpp"

namespace orrery::live {

struct NcclOptions {
  int device = 0;
  int max_ctas = 0;  ///< thread blocks NCCL may take of the GPU; 0: as it likes
  /// What this process's NCCL_TUNER_PLUGIN reads (live/nccl/tuner.cpp); empty: there is none.
  std::string table_file = {};
};

/// The module's functions with NCCL loaded; null, with the reason: no module, no driver, no device,
/// no NCCL, or one that is too old.
const OrreryCudaTable* find_nccl(const std::string& module_path, std::string& reason,
                                 const std::string& library = "libnccl.so.2");

class NcclFabric : public JoiningFabric {
 public:
  /// Throws an environment Error where the device or NCCL fails.
  NcclFabric(const OrreryCudaTable& module, const NcclOptions& options);
  ~NcclFabric() override;

  /// What the others need to reach this rank, should it be rank 0: "nccl:" and the id.
  const std::string& address() const override { return address_; }
  /// Joins as rank `rank` of as many as there are addresses; returns when all have joined.
  void connect(std::uint32_t rank, const std::vector<std::string>& addresses) override;

  void set_link_rate(double) override {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  void all_reduce(std::span<float> values) override;
  void all_reduce_integers(std::span<std::int64_t> values) override;
  void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override;
  void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override;
  std::uint64_t bytes_sent() const override;
  void abort(const std::string& reason) override;
  double round_trip() const override { return 0; }

  /// What collectives from now on are carried out with, through the tuner plugin: between two
  /// steps, the same table on all ranks; none after connect(). What NCCL has no algorithm for it
  /// chooses itself.
  void use_collectives(const CollectiveTable& table) override;

  /// Stops what still runs on the GPU after a failure. False: this NCCL cannot.
  bool revoke();
  /// The ranks that are left, without new ids: called by them alone, after a failure too. Throws
  /// FabricBroken.
  std::unique_ptr<NcclFabric> shrink(const std::vector<std::uint32_t>& excluded);

 private:
  NcclFabric(const OrreryCudaTable& module, OrreryComm* comm);
  void check(int status) const;

  const OrreryCudaTable& module_;
  OrreryComm* comm_ = nullptr;
  std::string address_;
  const std::string table_file_;
  std::uint32_t rank_ = 0, ranks_ = 0;
};

}  // namespace orrery::live
