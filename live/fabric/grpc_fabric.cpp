#include "live/fabric/grpc_fabric.hpp"

#include <utility>

#include "live/fabric/all_reduce.hpp"
#include "live/fabric/egress.hpp"
#include "live/fabric/exchange.hpp"
#include "live/fabric/link_server.hpp"
#include "live/fabric/out_links.hpp"
#include "live/fabric/peers.hpp"
#include "live/fabric/shared_fate.hpp"

namespace orrery::live {

struct GrpcFabric::Impl {
  Impl(const std::string& address, const Secrets& known);
  ~Impl() { fate.break_all("this rank has closed its links"); }
  void take_place(std::uint32_t rank, std::uint32_t ranks);
  void keep_to_streams();
  std::uint32_t ranks() const { return peers ? peers->ranks() : 0; }
  template <class T>
  void all_reduce(std::span<T> values);

  const Secrets secrets;
  CollectiveTable table;
  bool streams_only = false;
  SharedFate fate;
  Egress egress;
  std::unique_ptr<Peers> peers;  ///< null: this rank does not know its place yet
  LinkServer server;
  std::unique_ptr<OutLinks> out;  ///< created with the peers
};

GrpcFabric::Impl::Impl(const std::string& address, const Secrets& known)
    : secrets(known), server(address, secrets, fate) {
  fate.on_break([this](const std::string&) { egress.close(); });
}

void GrpcFabric::Impl::take_place(std::uint32_t rank, std::uint32_t ranks) {
  peers = std::make_unique<Peers>(rank, ranks);
  if (streams_only) peers->boards().disable_shared_memory();
  fate.on_break([this](const std::string& why) { peers->close(why); });
  out = std::make_unique<OutLinks>(secrets, fate, egress, *peers);
  server.admit_peers(*peers);
}

void GrpcFabric::Impl::keep_to_streams() {
  streams_only = true;
  if (peers) peers->boards().disable_shared_memory();
}

template <class T>
void GrpcFabric::Impl::all_reduce(std::span<T> values) {
  fate.throw_if_broken();
  if (ranks() == 1) return;
  out->ping();
  const auto bytes = static_cast<double>(values.size_bytes());
  Exchange exchange(fate, egress, *peers, *out);
  live::all_reduce(exchange, choose_all_reduce(table, bytes, ranks()), peers->rank(), ranks(),
                   values);
}

GrpcFabric::GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
                       const Secrets& secrets)
    : GrpcFabric(address, secrets) {
  impl_->take_place(rank, ranks);
}

GrpcFabric::GrpcFabric(const std::string& address, const Secrets& secrets)
    : impl_(std::make_unique<Impl>(address, secrets)) {}

GrpcFabric::~GrpcFabric() = default;

void GrpcFabric::connect_next(const std::vector<std::string>& addresses) {
  if (ranks() == 1) return;
  impl_->out->set_addresses(addresses);
  impl_->out->open((rank() + 1) % ranks());
}

void GrpcFabric::connect_ranks(std::uint32_t rank, const std::vector<std::string>& addresses) {
  impl_->take_place(rank, static_cast<std::uint32_t>(addresses.size()));
  connect_next(addresses);
}

const std::string& GrpcFabric::address() const { return impl_->server.address(); }
void GrpcFabric::disable_shared_memory() { impl_->keep_to_streams(); }
std::uint32_t GrpcFabric::rank() const { return impl_->peers ? impl_->peers->rank() : 0; }
std::uint32_t GrpcFabric::ranks() const { return impl_->ranks(); }
double GrpcFabric::round_trip() const { return impl_->out ? impl_->out->round_trip() : 0; }
void GrpcFabric::abort(const std::string& reason) { impl_->fate.break_all(reason); }
std::uint64_t GrpcFabric::bytes_sent() const { return impl_->egress.bytes(); }
double GrpcFabric::seconds_sending() const { return impl_->egress.seconds(); }
void GrpcFabric::set_link_rate(double bytes_per_second) {
  impl_->egress.set_rate(bytes_per_second);
}
void GrpcFabric::use_collectives(const CollectiveTable& table) { impl_->table = table; }

CollectiveAlgorithm GrpcFabric::algorithm(double bytes) const {
  return choose_all_reduce(impl_->table, bytes, ranks());
}

void GrpcFabric::send_to(std::uint32_t rank, std::span<const std::byte> bytes) {
  impl_->out->open(rank);
  while (!bytes.empty()) impl_->out->send_piece(rank, bytes, true);
}

void GrpcFabric::receive_from(std::uint32_t rank, std::span<std::byte> bytes) {
  Inbox& inbox = impl_->peers->inbox(rank);
  while (!bytes.empty()) {
    PieceData piece = inbox.wait_for_direct();
    if (piece.size() > bytes.size()) throw FabricBroken("a neighbour sent more than was agreed");
    const std::size_t size = piece.size();
    piece.take_bytes(bytes.first(size));
    bytes = bytes.subspan(size);
  }
}

void GrpcFabric::all_reduce(std::span<float> values) { impl_->all_reduce(values); }
void GrpcFabric::all_reduce_integers(std::span<std::int64_t> values) { impl_->all_reduce(values); }

}  // namespace orrery::live
