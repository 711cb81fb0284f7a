#include "live/grpc_fabric.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "core/error.hpp"
#include "live/credentials.hpp"
#include "live/data.grpc.pb.h"
#include "live/ring.hpp"
#include "live/token.hpp"

namespace orrery::live {
namespace {

std::uint64_t clock_nanos() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

/// Small enough that a receiver may begin before all is there, and far below gRPC's limit.
constexpr std::size_t kDirectPiece = 256 * 1024;
/// Of a message; a neighbour that sends more is none.
constexpr int kMostPieceBytes = 4 << 20;
/// gRPC's own prefix of a message; the frames of HTTP/2 below it are under 0.1%.
constexpr std::size_t kMessagePrefix = 5;

}  // namespace

using Stream = grpc::ClientReaderWriter<Piece, Pong>;

/// From this rank to one that need not be its neighbour.
struct DirectLink {
  std::unique_ptr<Neighbour::Stub> stub;
  grpc::ClientContext call;
  std::unique_ptr<Stream> stream;
};

struct GrpcFabric::Impl : public Neighbours, public Neighbour::Service {
  explicit Impl(Secrets known) : secrets(std::move(known)) {}
  ~Impl() override;
  void listen(const std::string& address);
  void take_place(std::uint32_t own_rank, std::uint32_t world);

  grpc::Status Link(grpc::ServerContext* link,
                    grpc::ServerReaderWriter<Pong, Piece>* stream) override;
  const char* objection(const Piece& first);
  void serve(grpc::ServerReaderWriter<Pong, Piece>& stream, const LinkHello& hello);
  void send(std::uint64_t tag, std::string_view bytes) override;
  std::string receive(std::uint64_t tag) override;
  template <class T>
  void all_reduce(std::span<T> values);
  void write(const Piece& piece) { write(*next, piece, (rank + 1) % ranks); }
  void write(Stream& stream, const Piece& piece, std::uint32_t to);
  void wait_for_turn(std::size_t bytes);
  Piece hello(bool direct) const;
  DirectLink& link_to(std::uint32_t to);
  void read_pongs();
  void break_links(const std::string& reason);
  std::string reason();
  std::uint32_t previous() const { return (rank + ranks - 1) % ranks; }

  std::uint32_t rank = 0, ranks = 0;  ///< 0 ranks: not known yet
  const Secrets secrets;
  std::optional<Ring> ring;
  Listener listener;

  std::mutex mutex;  // of everything down to `broken`
  std::condition_variable changed;
  std::deque<Piece> incoming;           // data pieces of the previous rank
  std::set<grpc::ServerContext*> open;  // links from others, to be cancelled
  std::map<std::uint32_t, std::deque<std::string>> direct;     // pieces by sender
  std::map<std::uint32_t, std::unique_ptr<DirectLink>> links;  // by receiver
  bool linked = false;                  // the previous rank's link is here
  bool calling = false;                 // our link to the next rank may be cancelled
  std::string broken;                   // why; empty while whole

  std::atomic<double> round_trip_s{0};
  std::atomic<std::uint64_t> sent{0};
  std::atomic<double> link_rate{0};
  std::chrono::steady_clock::time_point link_free{};
  std::vector<std::string> addresses;
  std::unique_ptr<Neighbour::Stub> stub;
  grpc::ClientContext call;
  std::unique_ptr<Stream> next;
  std::jthread pong_reader;
};

GrpcFabric::Impl::~Impl() {
  break_links("this rank has closed its links");
  if (pong_reader.joinable()) pong_reader.join();
  if (next) next->Finish();
  for (auto& [to, link] : links) {
    if (link->stream) link->stream->Finish();
  }
  if (listener.server) listener.server->Shutdown(std::chrono::system_clock::now());
  const std::scoped_lock lock(mutex);  // whoever served a link has let go of what goes away now
}

/// Why a link may not come in; nothing: it has. Each link once: a second one would mix its pieces
/// in. Only the previous rank's is the ring's.
const char* GrpcFabric::Impl::objection(const Piece& first) {
  if (!first.has_hello()) return "its first message is no greeting";
  const LinkHello& said = first.hello();
  if (!same_token(said.token(), secrets.token)) return "it does not know the run's token";
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return ranks > 0 || !broken.empty(); });
  if (!broken.empty()) return "the links of this epoch are closed";
  if (said.rank() >= ranks || said.rank() == rank) return "the run has no such rank";
  if (said.direct()) {
    return direct.try_emplace(said.rank()).second ? nullptr : "that rank has its link";
  }
  if (said.rank() != previous()) return "it is not the neighbour of this rank";
  return std::exchange(linked, true) ? "that rank has its link" : nullptr;
}

void GrpcFabric::Impl::serve(grpc::ServerReaderWriter<Pong, Piece>& stream,
                             const LinkHello& hello) {
  Piece piece;
  while (stream.Read(&piece)) {
    if (piece.kind_case() == Piece::kPing) {
      Pong pong;
      pong.set_ping(piece.ping());
      stream.Write(pong);
    } else if (piece.kind_case() == Piece::kData) {
      const std::scoped_lock lock(mutex);
      if (hello.direct()) {
        direct[hello.rank()].push_back(std::move(*piece.mutable_data()));
      } else {
        incoming.push_back(std::move(piece));
      }
      changed.notify_all();
    }
  }
}

grpc::Status GrpcFabric::Impl::Link(grpc::ServerContext* link,
                                    grpc::ServerReaderWriter<Pong, Piece>* stream) {
  bool over = false;
  {
    const std::scoped_lock lock(mutex);
    if (!broken.empty()) return {grpc::StatusCode::ABORTED, broken};
    open.insert(link);
  }
  Piece first;
  const char* why = "its first message cannot be read";
  if (stream->Read(&first)) why = objection(first);
  if (!why) serve(*stream, first.hello());
  {
    const std::scoped_lock lock(mutex);
    open.erase(link);
    over = !broken.empty();
  }
  if (why) {
    if (!over) log_refusal(link->peer(), why);
    return {grpc::StatusCode::PERMISSION_DENIED, "not a neighbour of this run"};
  }
  break_links(fmt::format("rank {} closed its link", first.hello().rank()));
  return grpc::Status::OK;
}

void GrpcFabric::Impl::break_links(const std::string& why) {
  const std::scoped_lock lock(mutex);
  if (!broken.empty()) return;
  broken = why;
  for (grpc::ServerContext* link : open) link->TryCancel();
  if (calling) call.TryCancel();
  for (auto& [to, link_out] : links) link_out->call.TryCancel();
  changed.notify_all();
}

std::string GrpcFabric::Impl::reason() {
  const std::scoped_lock lock(mutex);
  return broken;
}

/// A slow NIC passes on what it is given one after the other.
void GrpcFabric::Impl::wait_for_turn(std::size_t bytes) {
  const double rate = link_rate;
  if (rate <= 0) return;
  const auto takes = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / rate));
  std::unique_lock lock(mutex);
  link_free = std::max(link_free, std::chrono::steady_clock::now()) + takes;
  changed.wait_until(lock, link_free, [this] { return !broken.empty(); });
}

void GrpcFabric::Impl::write(Stream& stream, const Piece& piece, std::uint32_t to) {
  const std::size_t size = piece.ByteSizeLong() + kMessagePrefix;
  wait_for_turn(size);
  if (const std::string why = reason(); !why.empty()) throw FabricBroken(why);
  sent += size;
  if (stream.Write(piece)) return;
  break_links(fmt::format("the link to rank {} is closed", to));
  throw FabricBroken(reason());
}

Piece GrpcFabric::Impl::hello(bool is_direct) const {
  Piece piece;
  piece.mutable_hello()->set_rank(rank);
  piece.mutable_hello()->set_token(secrets.token);
  piece.mutable_hello()->set_direct(is_direct);
  return piece;
}

DirectLink& GrpcFabric::Impl::link_to(std::uint32_t to) {
  if (const auto found = links.find(to); found != links.end()) return *found->second;
  auto fresh = std::make_unique<DirectLink>();
  fresh->stub = Neighbour::NewStub(open_channel(addresses.at(to), secrets, kMostPieceBytes));
  fresh->call.set_wait_for_ready(true);
  DirectLink& link = *fresh;
  {
    const std::scoped_lock lock(mutex);
    if (!broken.empty()) throw FabricBroken(broken);
    links.emplace(to, std::move(fresh));
  }
  link.stream = link.stub->Link(&link.call);
  write(*link.stream, hello(true), to);
  return link;
}

void GrpcFabric::Impl::send(std::uint64_t tag, std::string_view bytes) {
  Piece piece;
  piece.set_tag(tag);
  piece.set_data(bytes.data(), bytes.size());
  write(piece);
}

std::string GrpcFabric::Impl::receive(std::uint64_t tag) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !incoming.empty() || !broken.empty(); });
  if (!broken.empty()) throw FabricBroken(broken);
  Piece piece = std::move(incoming.front());
  incoming.pop_front();
  if (piece.tag() != tag) throw FabricBroken("pieces of a link are missing");
  return std::move(*piece.mutable_data());
}

void GrpcFabric::Impl::read_pongs() {
  Pong pong;
  while (next->Read(&pong)) {
    const std::uint64_t now = clock_nanos();
    if (pong.ping() <= now) round_trip_s = static_cast<double>(now - pong.ping()) * 1e-9;
  }
  break_links(fmt::format("the link to rank {} is closed", (rank + 1) % ranks));
}

void GrpcFabric::Impl::listen(const std::string& address) {
  listener = orrery::live::listen(address, secrets, *this, kMostPieceBytes);
}

void GrpcFabric::Impl::take_place(std::uint32_t own_rank, std::uint32_t world) {
  const std::scoped_lock lock(mutex);
  rank = own_rank;
  ranks = world;
  ring.emplace(*this, rank, ranks);
  changed.notify_all();
}

GrpcFabric::GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
                       const Secrets& secrets)
    : impl_(std::make_unique<Impl>(secrets)) {
  impl_->take_place(rank, ranks);
  impl_->listen(address);
}

GrpcFabric::GrpcFabric(const std::string& address, const Secrets& secrets)
    : impl_(std::make_unique<Impl>(secrets)) {
  impl_->listen(address);
}

GrpcFabric::~GrpcFabric() = default;

void GrpcFabric::connect(const std::vector<std::string>& addresses) {
  Impl& impl = *impl_;
  if (impl.ranks == 1) return;
  impl.addresses = addresses;
  const std::string& address = addresses.at((impl.rank + 1) % impl.ranks);
  impl.stub = Neighbour::NewStub(open_channel(address, impl.secrets, kMostPieceBytes));
  impl.call.set_wait_for_ready(true);
  {
    const std::scoped_lock lock(impl.mutex);
    if (!impl.broken.empty()) throw FabricBroken(impl.broken);
    impl.calling = true;
  }
  // Not under the lock: this waits for the next rank, and only a cancelled call gives up.
  impl.next = impl.stub->Link(&impl.call);
  impl.write(impl.hello(false));
  impl.pong_reader = std::jthread([&impl] { impl.read_pongs(); });
}

void GrpcFabric::connect(std::uint32_t rank, const std::vector<std::string>& addresses) {
  impl_->take_place(rank, static_cast<std::uint32_t>(addresses.size()));
  connect(addresses);
}

const std::string& GrpcFabric::address() const { return impl_->listener.address; }
std::uint32_t GrpcFabric::rank() const { return impl_->rank; }
std::uint32_t GrpcFabric::ranks() const { return impl_->ranks; }
double GrpcFabric::round_trip() const { return impl_->round_trip_s; }
void GrpcFabric::abort(const std::string& reason) { impl_->break_links(reason); }

std::uint64_t GrpcFabric::bytes_sent() const { return impl_->sent; }
void GrpcFabric::set_link_rate(double bytes_per_second) { impl_->link_rate = bytes_per_second; }

void GrpcFabric::send_to(std::uint32_t rank, std::span<const std::byte> bytes) {
  DirectLink& link = impl_->link_to(rank);
  Piece piece;
  for (std::size_t done = 0; done < bytes.size(); done += kDirectPiece) {
    const auto part = bytes.subspan(done, std::min(kDirectPiece, bytes.size() - done));
    piece.set_data(part.data(), part.size());
    impl_->write(*link.stream, piece, rank);
  }
}

void GrpcFabric::receive_from(std::uint32_t rank, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    std::string piece;
    {
      std::unique_lock lock(impl_->mutex);
      impl_->changed.wait(lock, [&] {
        const auto found = impl_->direct.find(rank);
        return !impl_->broken.empty() || (found != impl_->direct.end() && !found->second.empty());
      });
      if (!impl_->broken.empty()) throw FabricBroken(impl_->broken);
      piece = std::move(impl_->direct[rank].front());
      impl_->direct[rank].pop_front();
    }
    if (piece.size() > bytes.size()) throw FabricBroken("a neighbour sent more than was agreed");
    std::memcpy(bytes.data(), piece.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  }
}

template <class T>
void GrpcFabric::Impl::all_reduce(std::span<T> values) {
  if (const std::string why = reason(); !why.empty()) throw FabricBroken(why);
  if (ranks == 1) return;
  Piece ping;
  ping.set_ping(clock_nanos());
  write(ping);
  ring->all_reduce(values);
}

void GrpcFabric::all_reduce(std::span<float> values) { impl_->all_reduce(values); }
void GrpcFabric::all_reduce_integers(std::span<std::int64_t> values) {
  impl_->all_reduce(values);
}

}  // namespace orrery::live
