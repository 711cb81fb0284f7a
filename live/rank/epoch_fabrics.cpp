#include "live/rank/epoch_fabrics.hpp"

#include <utility>

#include <fmt/format.h>

#include "live/fabric/grpc_fabric.hpp"

namespace orrery::live {

EpochFabrics::EpochFabrics(std::string address, const Secrets& secrets, const GpuSeat* gpu,
                           bool apart)
    : address_(std::move(address)), secrets_(secrets), gpu_(gpu), apart_(apart) {}

std::shared_ptr<JoiningFabric> EpochFabrics::make_fabric(std::uint64_t epoch) const {
  if (gpu_ != nullptr) return gpu_->make_fabric();
  auto fresh = std::make_shared<GrpcFabric>(address(epoch), newest(secrets_));
  if (apart_) fresh->disable_shared_memory();
  return fresh;
}

/// Returns the address at which to listen: each epoch has a socket of its own.
std::string EpochFabrics::address(std::uint64_t epoch) const {
  return address_.starts_with("unix:") ? fmt::format("{}-{}", address_, epoch) : address_;
}

}  // namespace orrery::live
