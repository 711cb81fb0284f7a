#include "live/fabric/grpc_fabric.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "core/error.hpp"
#include "live/fabric/all_reduce.hpp"
#include "live/fabric/piece_wire.hpp"
#include "live/fabric/shared_memory.hpp"
#include "live/transport/byte_service.hpp"
#include "live/transport/credentials.hpp"
#include "live/transport/doorman.hpp"
#include "live/transport/token.hpp"

namespace orrery::live {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::uint64_t clock_nanos() {
  return static_cast<std::uint64_t>(SteadyClock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

/// Small enough that a receiver may begin before all is there, and far below gRPC's limit.
constexpr std::size_t kStreamPiece = 256 * 1024;
/// What is copied into shared memory before the reader hears of it.
constexpr std::size_t kSharedPiece = 64 * 1024;
/// What is taken from a piece at once: a whole number of units, and small beside the cache.
constexpr std::size_t kAtOnce = 16 * 1024;
/// Of a message; a neighbour that sends more is none.
constexpr std::size_t kMostPieceBytes = 4 << 20;
/// Pongs are small.
constexpr int kMostAnswerBytes = 64 << 10;
/// gRPC's own prefix of a message; the frames of HTTP/2 below it are under 0.1%.
constexpr std::size_t kMessagePrefix = 5;
/// Between two measurements of a link's round trip.
constexpr std::uint64_t kPingNanos = 20'000'000;

void encode(const BoardPlace& place, SharedBoard& out) {
  out.set_machine(place.machine);
  out.set_pid(place.pid);
  out.set_descriptor_number(place.descriptor);
  out.set_mark(place.mark);
}

BoardPlace decode(const SharedBoard& in) {
  return {.machine = in.machine(),
          .pid = in.pid(),
          .descriptor = in.descriptor_number(),
          .mark = in.mark()};
}

// Pieces stay bytes on both sides (piece_wire.hpp).
using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, Pong>;
using Service = ByteService<Pong>;
using ServedStream = Service::Stream;
constexpr char kLinkMethod[] = "/orrery.live.Neighbour/Link";

bool read(ServedStream& stream, Piece& piece, PieceData& data, const char*& why) {
  const auto parse = [&](grpc::ByteBuffer& wire) { return read_piece(wire, piece, data); };
  return read_message(stream, kMostPieceBytes, parse, why);
}

}  // namespace

/// From this rank to another.
struct OutLink {
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext call;
  std::unique_ptr<Stream> stream;
  bool welcome = false;         ///< the other end has answered
  Bell* bell = nullptr;         ///< of the other end, if we share memory
  std::jthread reader;
};

/// What this rank knows of another. Under the fabric's mutex, except where noted.
struct Peer {
  bool linked = false;  ///< its link to us is here
  std::deque<PieceData> direct, collective;  ///< pieces that have arrived
  std::atomic<std::size_t> waiting = 0;        ///< of `collective`
  std::unique_ptr<Board> board;
  std::atomic<ByteRing*> ring = nullptr;  ///< from it to us, if we share memory
  std::unique_ptr<OutLink> out;
};

struct GrpcFabric::Impl : public Links {
  explicit Impl(Secrets known) : secrets(std::move(known)) {}
  ~Impl() override;
  void take_place(std::uint32_t own_rank, std::uint32_t world);

  grpc::Status serve_link(grpc::ServerContext& link, ServedStream& stream);
  const char* objection(const Piece& first);
  const char* serve(ServedStream& stream, const LinkHello& hello);
  Board* board_of(Peer& peer, const SharedBoard& said);

  OutLink& link_to(std::uint32_t to);
  OutLink& welcomed_link_to(std::uint32_t to);
  void read_answers(std::uint32_t to, OutLink& link);
  Piece hello() const;
  void write(OutLink& link, const grpc::ByteBuffer& piece, std::uint32_t to);
  void write_piece(OutLink& link, std::span<const std::byte>& bytes, std::uint32_t to,
                   bool direct);
  void write_all(OutLink& link, std::span<const std::byte> bytes, std::uint32_t to, bool direct);
  void wait_for_turn(std::size_t bytes);
  void ping();

  void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                Inflow in) override;
  bool push(std::uint32_t to, Bell& bell, std::span<const std::byte>& out);
  bool pull(Peer& peer, Inflow& in);
  bool pull_piece(Peer& peer, Inflow& in);
  template <class T>
  void all_reduce(std::span<T> values);

  void break_links(const std::string& reason);
  void throw_if_broken();

  std::uint32_t rank = 0, ranks = 0;  ///< 0 ranks: not known yet
  const Secrets secrets;
  std::atomic<bool> streams_only = false;  ///< read by whoever serves a link
  Service service{kLinkMethod,
                  [this](auto& link, auto& stream) { return serve_link(link, stream); }};
  Listener listener;
  CollectiveTable table;

  std::mutex mutex;  // of everything down to `broken`
  std::condition_variable changed;
  std::set<grpc::ServerContext*> open;  // links from others, to be cancelled
  std::vector<Peer> peers;              // by rank; their number is fixed once it is known
  std::unique_ptr<Board> board;
  std::string broken;                   // why; empty while whole
  std::atomic<bool> is_broken = false;

  std::atomic<double> round_trip_s{0};
  std::atomic<std::uint64_t> sent{0}, sending{0};  ///< bytes; nanoseconds spent on them
  std::atomic<double> link_rate{0};
  SteadyClock::time_point link_free{};
  std::uint64_t pinged = 0;
  std::vector<std::string> addresses;
};

GrpcFabric::Impl::~Impl() {
  break_links("this rank has closed its links");
  for (Peer& peer : peers) {
    if (!peer.out) continue;
    if (peer.out->reader.joinable()) peer.out->reader.join();
    if (peer.out->stream) peer.out->stream->Finish();
  }
  if (listener.server) listener.server->Shutdown(std::chrono::system_clock::now());
  const std::scoped_lock lock(mutex);  // whoever served a link has let go of what goes away now
}

// ---- links from others ----------------------------------------------------------------------

/// Why a link may not come in; nothing: it has. Each link once: a second one would mix its pieces
/// in.
const char* GrpcFabric::Impl::objection(const Piece& first) {
  if (!first.has_hello()) return "its first message is no greeting";
  const LinkHello& said = first.hello();
  if (!same_token(said.token(), secrets.token)) return "it does not know the run's token";
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return ranks > 0 || !broken.empty(); });
  if (!broken.empty()) return "the links of this epoch are closed";
  if (said.rank() >= ranks || said.rank() == rank) return "the run has no such rank";
  return std::exchange(peers[said.rank()].linked, true) ? "that rank has its link" : nullptr;
}

/// The other rank's board, if we see it. Under the lock.
Board* GrpcFabric::Impl::board_of(Peer& peer, const SharedBoard& said) {
  if (!peer.board && !streams_only) peer.board = Board::open(decode(said), ranks);
  return peer.board.get();
}

/// Until the stream ends. Returns what was wrong with its last message, if that was it.
const char* GrpcFabric::Impl::serve(ServedStream& stream, const LinkHello& hello) {
  Peer& peer = peers[hello.rank()];
  Pong pong;
  {
    const std::scoped_lock lock(mutex);
    pong.mutable_welcome();
    if (Board* const theirs = board_of(peer, hello.board())) {
      peer.ring = &theirs->ring_to(rank);
      encode(board->place(), *pong.mutable_welcome()->mutable_board());
    }
  }
  board->bell().ring();
  if (!stream.Write(pong)) return nullptr;
  Piece piece;
  PieceData data;
  const char* why = nullptr;
  while (read(stream, piece, data, why)) {
    if (piece.kind_case() == Piece::kPing) {
      pong.set_ping(piece.ping());
      stream.Write(pong);
    } else if (piece.kind_case() == Piece::kData) {
      const std::scoped_lock lock(mutex);
      (piece.direct() ? peer.direct : peer.collective).push_back(std::move(data));
      peer.waiting = peer.collective.size();
      changed.notify_all();
    }
    board->bell().ring();
  }
  return why;
}

grpc::Status GrpcFabric::Impl::serve_link(grpc::ServerContext& link, ServedStream& stream) {
  bool over = false;
  {
    const std::scoped_lock lock(mutex);
    if (!broken.empty()) return {grpc::StatusCode::ABORTED, broken};
    open.insert(&link);
  }
  Piece first;
  PieceData none;
  const char *stranger = nullptr, *wrong = nullptr;
  const auto greeted = [&] {
    const AtTheDoor waits(link);
    return read(stream, first, none, stranger);
  };
  if (greeted()) {
    stranger = objection(first);
  } else if (!stranger) {
    stranger = "it ended without a message";
  }
  if (!stranger) wrong = serve(stream, first.hello());
  {
    const std::scoped_lock lock(mutex);
    open.erase(&link);
    over = !broken.empty();
  }
  if (stranger) {
    if (!over) log_refusal(link.peer(), stranger);
    return {grpc::StatusCode::PERMISSION_DENIED, "not a neighbour of this run"};
  }
  const std::string neighbour = fmt::format("rank {}", first.hello().rank());
  if (wrong && !over) log_refusal("what " + neighbour + " sends", wrong);
  break_links(neighbour + " closed its link");
  return grpc::Status::OK;
}

// ---- links to others ------------------------------------------------------------------------

Piece GrpcFabric::Impl::hello() const {
  Piece piece;
  LinkHello& said = *piece.mutable_hello();
  said.set_rank(rank);
  said.set_token(secrets.token);
  if (!streams_only) encode(board->place(), *said.mutable_board());
  return piece;
}

OutLink& GrpcFabric::Impl::link_to(std::uint32_t to) {
  if (peers.at(to).out) return *peers[to].out;
  auto fresh = std::make_unique<OutLink>();
  fresh->channel = open_channel(addresses.at(to), secrets, kMostAnswerBytes);
  fresh->call.set_wait_for_ready(true);
  OutLink& link = *fresh;
  {
    const std::scoped_lock lock(mutex);
    if (!broken.empty()) throw FabricBroken(broken);
    peers[to].out = std::move(fresh);
  }
  // Not under the lock: this waits for the other rank, and only a cancelled call gives up.
  using Opener = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, Pong>;
  const grpc::internal::RpcMethod method(
      kLinkMethod, grpc::internal::RpcMethod::BIDI_STREAMING, link.channel);
  link.stream.reset(Opener::Create(link.channel.get(), method, &link.call));
  write(link, other_piece(hello()), to);
  link.reader = std::jthread([this, to, &link] { read_answers(to, link); });
  return link;
}

/// Only the answer says which way collectives go.
OutLink& GrpcFabric::Impl::welcomed_link_to(std::uint32_t to) {
  OutLink& link = link_to(to);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return link.welcome || !broken.empty(); });
  if (!broken.empty()) throw FabricBroken(broken);
  return link;
}

void GrpcFabric::Impl::read_answers(std::uint32_t to, OutLink& link) {
  Pong pong;
  while (link.stream->Read(&pong)) {
    if (pong.kind_case() == Pong::kPing) {
      const std::uint64_t now = clock_nanos();
      if (pong.ping() <= now) round_trip_s = static_cast<double>(now - pong.ping()) * 1e-9;
      continue;
    }
    const std::scoped_lock lock(mutex);
    link.welcome = true;
    if (pong.welcome().has_board()) {
      Board* const theirs = board_of(peers[to], pong.welcome().board());
      if (theirs != nullptr) link.bell = &theirs->bell();
    }
    changed.notify_all();
  }
  break_links(fmt::format("the link to rank {} is closed", to));
}

/// A slow NIC passes on what it is given one after the other.
void GrpcFabric::Impl::wait_for_turn(std::size_t bytes) {
  const double rate = link_rate;
  if (rate <= 0) return;
  const auto takes = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / rate));
  std::unique_lock lock(mutex);
  link_free = std::max(link_free, SteadyClock::now()) + takes;
  changed.wait_until(lock, link_free, [this] { return !broken.empty(); });
}

void GrpcFabric::Impl::write(OutLink& link, const grpc::ByteBuffer& piece, std::uint32_t to) {
  const std::size_t size = piece.Length() + kMessagePrefix;
  const std::uint64_t start = clock_nanos();
  wait_for_turn(size);
  throw_if_broken();
  sent += size;
  const bool written = link.stream->Write(piece);
  sending += clock_nanos() - start;
  if (written) return;
  break_links(fmt::format("the link to rank {} is closed", to));
  throw_if_broken();
}

void GrpcFabric::Impl::write_piece(OutLink& link, std::span<const std::byte>& bytes,
                                   std::uint32_t to, bool direct) {
  const std::size_t size = std::min(kStreamPiece, bytes.size());
  write(link, data_piece(bytes.first(size), direct), to);
  bytes = bytes.subspan(size);
}

void GrpcFabric::Impl::ping() {
  const std::uint64_t now = clock_nanos();
  if (now - pinged < kPingNanos) return;
  pinged = now;
  Piece piece;
  piece.set_ping(now);
  const std::uint32_t next = (rank + 1) % ranks;
  write(link_to(next), other_piece(piece), next);
}

// ---- collectives ----------------------------------------------------------------------------

void GrpcFabric::Impl::exchange(std::uint32_t to, std::span<const std::byte> out,
                                std::uint32_t from, Inflow in) {
  OutLink* const link = out.empty() ? nullptr : &welcomed_link_to(to);
  Bell& bell = board->bell();
  for (std::uint32_t seen = bell.count(); !out.empty() || !in.bytes.empty(); seen = bell.count()) {
    throw_if_broken();
    bool moved = false;
    if (!out.empty() && link->bell != nullptr) {
      moved = push(to, *link->bell, out);
    } else if (!out.empty()) {
      write_piece(*link, out, to, false);
      moved = true;
    }
    if (!in.bytes.empty()) moved |= pull(peers[from], in);
    if (!moved) bell.wait(seen);
  }
}

/// Copies what there is room for. The reader is woken when it may have waited for it.
bool GrpcFabric::Impl::push(std::uint32_t to, Bell& bell, std::span<const std::byte>& out) {
  ByteRing& ring = board->ring_to(to);
  const std::span<std::byte> room = ring.free_stretch();
  const std::size_t bytes = std::min({out.size(), room.size(), kSharedPiece});
  if (bytes == 0) return false;
  const std::uint64_t start = clock_nanos();
  wait_for_turn(bytes);
  std::memcpy(room.data(), out.data(), bytes);
  sending += clock_nanos() - start;
  out = out.subspan(bytes);
  sent += bytes;
  ring.filled(bytes, out.empty());
  bell.ring();
  return true;
}

/// Takes what is there: straight from where it lies.
bool GrpcFabric::Impl::pull(Peer& peer, Inflow& in) {
  ByteRing* const ring = peer.ring;
  if (ring == nullptr || peer.waiting > 0) return pull_piece(peer, in);
  const std::span<const std::byte> there = ring->filled_stretch();
  std::size_t bytes = std::min({in.bytes.size(), there.size(), kSharedPiece});
  bytes -= bytes % in.unit;
  if (bytes == 0) return false;
  in.take(in.bytes.data(), there.data(), bytes);
  in.bytes = in.bytes.subspan(bytes);
  ring->emptied(bytes, in.bytes.empty());
  peer.board->bell().ring();
  return true;
}

bool GrpcFabric::Impl::pull_piece(Peer& peer, Inflow& in) {
  PieceData piece;
  {
    const std::scoped_lock lock(mutex);
    if (peer.collective.empty()) return false;
    piece = std::move(peer.collective.front());
    peer.collective.pop_front();
    peer.waiting = peer.collective.size();
  }
  const bool agreed = piece.size() <= in.bytes.size() && piece.size() % in.unit == 0;
  if (!agreed) throw FabricBroken("a neighbour sent something else than was agreed");
  // Slices begin and end anywhere: units are made whole and aligned where the cache is near.
  alignas(64) std::array<std::byte, kAtOnce> part;
  while (piece.size() > 0) {
    const auto units = std::span(part).first(std::min(piece.size(), part.size()));
    piece.take(units);
    in.take(in.bytes.data(), units.data(), units.size());
    in.bytes = in.bytes.subspan(units.size());
  }
  return true;
}

template <class T>
void GrpcFabric::Impl::all_reduce(std::span<T> values) {
  throw_if_broken();
  if (ranks == 1) return;
  ping();
  const auto bytes = static_cast<double>(values.size_bytes());
  live::all_reduce(*this, choose_all_reduce(table, bytes, ranks), rank, ranks, values);
}

// ---- beginning and end ----------------------------------------------------------------------

void GrpcFabric::Impl::take_place(std::uint32_t own_rank, std::uint32_t world) {
  const std::scoped_lock lock(mutex);
  peers = std::vector<Peer>(world);
  board = std::make_unique<Board>(world);
  rank = own_rank;
  ranks = world;
  changed.notify_all();
}

void GrpcFabric::Impl::break_links(const std::string& why) {
  const std::scoped_lock lock(mutex);
  if (!broken.empty()) return;
  broken = why;
  is_broken = true;
  for (grpc::ServerContext* link : open) link->TryCancel();
  for (Peer& peer : peers) {
    if (peer.out) peer.out->call.TryCancel();
  }
  if (board) board->bell().ring();
  changed.notify_all();
}

void GrpcFabric::Impl::throw_if_broken() {
  if (!is_broken) return;
  const std::scoped_lock lock(mutex);
  throw FabricBroken(broken);
}

GrpcFabric::GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
                       const Secrets& secrets)
    : GrpcFabric(address, secrets) {
  impl_->take_place(rank, ranks);
}

GrpcFabric::GrpcFabric(const std::string& address, const Secrets& secrets)
    : impl_(std::make_unique<Impl>(secrets)) {
  impl_->listener = listen(address, secrets, impl_->service, kNoLimitOfGrpc);
}

GrpcFabric::~GrpcFabric() = default;

void GrpcFabric::connect(const std::vector<std::string>& addresses) {
  if (impl_->ranks == 1) return;
  impl_->addresses = addresses;
  impl_->link_to((impl_->rank + 1) % impl_->ranks);
}

void GrpcFabric::connect(std::uint32_t rank, const std::vector<std::string>& addresses) {
  impl_->take_place(rank, static_cast<std::uint32_t>(addresses.size()));
  connect(addresses);
}

const std::string& GrpcFabric::address() const { return impl_->listener.address; }
void GrpcFabric::keep_to_streams() { impl_->streams_only = true; }
std::uint32_t GrpcFabric::rank() const { return impl_->rank; }
std::uint32_t GrpcFabric::ranks() const { return impl_->ranks; }
double GrpcFabric::round_trip() const { return impl_->round_trip_s; }
void GrpcFabric::abort(const std::string& reason) { impl_->break_links(reason); }
std::uint64_t GrpcFabric::bytes_sent() const { return impl_->sent; }
double GrpcFabric::seconds_sending() const { return static_cast<double>(impl_->sending) * 1e-9; }
void GrpcFabric::set_link_rate(double bytes_per_second) { impl_->link_rate = bytes_per_second; }
void GrpcFabric::use_collectives(const CollectiveTable& table) { impl_->table = table; }

CollectiveAlgorithm GrpcFabric::algorithm(double bytes) const {
  return choose_all_reduce(impl_->table, bytes, impl_->ranks);
}

void GrpcFabric::send_to(std::uint32_t rank, std::span<const std::byte> bytes) {
  OutLink& link = impl_->link_to(rank);
  while (!bytes.empty()) impl_->write_piece(link, bytes, rank, true);
}

void GrpcFabric::receive_from(std::uint32_t rank, std::span<std::byte> bytes) {
  Peer& peer = impl_->peers.at(rank);
  while (!bytes.empty()) {
    PieceData piece;
    {
      std::unique_lock lock(impl_->mutex);
      impl_->changed.wait(lock,
                          [&] { return !impl_->broken.empty() || !peer.direct.empty(); });
      if (!impl_->broken.empty()) throw FabricBroken(impl_->broken);
      piece = std::move(peer.direct.front());
      peer.direct.pop_front();
    }
    if (piece.size() > bytes.size()) throw FabricBroken("a neighbour sent more than was agreed");
    const std::size_t size = piece.size();
    piece.take(bytes.first(size));
    bytes = bytes.subspan(size);
  }
}

void GrpcFabric::all_reduce(std::span<float> values) { impl_->all_reduce(values); }
void GrpcFabric::all_reduce_integers(std::span<std::int64_t> values) {
  impl_->all_reduce(values);
}

}  // namespace orrery::live
