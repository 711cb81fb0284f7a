#include "live/fabric/nccl_fabric.hpp"

#include <array>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/nccl/nccl_table.hpp"

namespace orrery::live {
namespace {

using Id = std::array<std::uint8_t, ORRERY_NCCL_ID_SIZE>;
constexpr std::string_view kScheme = "nccl:";

/// An id that this process has made and nobody has used: each keeps a socket and a thread of NCCL's
/// until somebody does, so one that was published in vain is published again.
class SpareId {
 public:
  Id take(const OrreryCudaTable& module) {
    const std::scoped_lock lock(mutex_);
    if (spare_) return *std::exchange(spare_, std::nullopt);
    Id fresh{};
    if (module.nccl_make_id(fresh.data()) != 0) {
      throw Error(ErrorKind::environment, module.why());
    }
    return fresh;
  }
  void give_back(const Id& id) {
    const std::scoped_lock lock(mutex_);
    spare_ = id;
  }

 private:
  std::mutex mutex_;
  std::optional<Id> spare_;
};

SpareId& spare_id() {
  static SpareId one;
  return one;
}

std::string print_id(const Id& id) {
  std::string text(kScheme);
  for (const std::uint8_t byte : id) text += fmt::format("{:02x}", byte);
  return text;
}

Id parse_id(std::string_view text) {
  Id id{};
  const auto digit = [&](std::size_t at) {
    const std::size_t value = std::string_view("0123456789abcdef").find(text[at]);
    if (value == std::string_view::npos) throw FabricBroken("rank 0's address is no NCCL id");
    return static_cast<std::uint8_t>(value);
  };
  if (!text.starts_with(kScheme) || text.size() != kScheme.size() + 2 * id.size()) {
    throw FabricBroken("rank 0's address is no NCCL id");
  }
  for (std::size_t i = 0; i < id.size(); ++i) {
    const std::size_t at = kScheme.size() + 2 * i;
    id[i] = static_cast<std::uint8_t>(16 * digit(at) + digit(at + 1));
  }
  return id;
}

}  // namespace

const OrreryCudaTable* find_nccl(const std::string& module_path, std::string& reason,
                                 const std::string& library) {
  const CudaProbe probe = probe_cuda(module_path);
  reason = probe.reason;
  if (!probe.module_loaded || probe.devices == 0) return nullptr;
  const OrreryCudaTable* table = load_cuda_table(module_path, reason);
  if (!table) return nullptr;
  int version = 0;
  if (table->nccl_load(library.c_str(), &version) == 0) return table;
  reason = table->why();
  return nullptr;
}

NcclFabric::NcclFabric(const OrreryCudaTable& module, const NcclOptions& options)
    : module_(module), table_file_(options.table_file) {
  if (module_.nccl_open(options.device, options.max_ctas, &comm_) != 0) {
    throw Error(ErrorKind::environment, module_.why());
  }
  try {
    address_ = print_id(spare_id().take(module_));
  } catch (...) {
    module_.nccl_close(comm_);
    throw;
  }
}

NcclFabric::~NcclFabric() { module_.nccl_close(comm_); }

void NcclFabric::check_status(int status) const {
  if (status != 0) throw FabricBroken(module_.why());
}

void NcclFabric::connect_ranks(std::uint32_t rank, const std::vector<std::string>& addresses) {
  rank_ = rank;
  ranks_ = static_cast<std::uint32_t>(addresses.size());
  const Id id = parse_id(addresses.at(0));
  use_collectives({});  // no table until the next decision: new ranks do not know the old one
  if (rank != 0) spare_id().give_back(parse_id(address_));
  check_status(
      module_.nccl_connect(comm_, id.data(), static_cast<int>(rank), static_cast<int>(ranks_)));
}

void NcclFabric::all_reduce(std::span<float> values) {
  check_status(module_.nccl_all_reduce(comm_, values.data(), values.size()));
}

void NcclFabric::all_reduce_integers(std::span<std::int64_t> values) {
  check_status(module_.nccl_all_reduce_integers(comm_, values.data(), values.size()));
}

void NcclFabric::send_to(std::uint32_t rank, std::span<const std::byte> bytes) {
  check_status(module_.nccl_send(comm_, static_cast<int>(rank), bytes.data(), bytes.size()));
}

void NcclFabric::receive_from(std::uint32_t rank, std::span<std::byte> bytes) {
  check_status(module_.nccl_receive(comm_, static_cast<int>(rank), bytes.data(), bytes.size()));
}

void NcclFabric::use_collectives(const CollectiveTable& table) {
  if (!table_file_.empty()) write_tuner_file(table_file_, tuner_table_of(table));
}

std::uint64_t NcclFabric::bytes_sent() const { return module_.nccl_bytes_sent(comm_); }

void NcclFabric::abort(const std::string& reason) { module_.nccl_abort(comm_, reason.c_str()); }

}  // namespace orrery::live
