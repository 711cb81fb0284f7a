#include "live/fabric/out_links.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "live/fabric/fabric.hpp"
#include "live/fabric/piece_wire.hpp"
#include "live/machine/host_clock.hpp"
#include "live/transport/credentials.hpp"

namespace orrery::live {
namespace {

/// Small enough that a receiver may begin before all is there, and far below gRPC's limit.
constexpr std::size_t kStreamPiece = 256 * 1024;
/// Pongs are small.
constexpr int kMostAnswerBytes = 64 << 10;
/// gRPC's own prefix of a message; the frames of HTTP/2 below it are under 0.1%.
constexpr std::size_t kMessagePrefix = 5;
/// Interval of the measurements of a link's round trip.
constexpr std::uint64_t kPingNanos = 20'000'000;

// Pieces stay bytes on both sides (piece_wire.hpp).
using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, Pong>;

std::uint64_t clock_nanos() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace

struct OutLinks::Link {
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext call;
  std::unique_ptr<Stream> stream;
  bool welcome = false;  ///< the other end has answered
  Bell* bell = nullptr;  ///< bell of the other end, if memory is shared
  std::jthread reader;
};

OutLinks::OutLinks(const Secrets& secrets, SharedFate& fate, Egress& egress, Peers& peers)
    : secrets_(secrets), fate_(fate), egress_(egress), peers_(peers), links_(peers.ranks()) {
  fate_.on_break([this](const std::string& why) { close(why); });
}

OutLinks::~OutLinks() {
  for (const std::unique_ptr<Link>& link : links_) {
    if (!link) continue;
    if (link->reader.joinable()) link->reader.join();
    if (link->stream) link->stream->Finish();
  }
}

void OutLinks::close(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  closed_ = why;
  for (const std::unique_ptr<Link>& link : links_) {
    if (link) link->call.TryCancel();
  }
  changed_.notify_all();
}

Piece OutLinks::hello() const {
  Piece piece;
  LinkHello& said = *piece.mutable_hello();
  said.set_rank(peers_.rank());
  said.set_token(secrets_.token);
  peers_.boards().write_hello(said);
  return piece;
}

OutLinks::Link& OutLinks::link_to(std::uint32_t to) {
  if (links_.at(to)) return *links_[to];
  auto fresh = std::make_unique<Link>();
  fresh->channel = open_channel(addresses_.at(to), secrets_, kMostAnswerBytes);
  fresh->call.set_wait_for_ready(true);
  Link& link = *fresh;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_.has_value()) throw FabricBroken(*closed_);
    links_[to] = std::move(fresh);
  }
  // Not under the lock: this waits for the other rank, and only a cancelled call gives up.
  using Opener = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, Pong>;
  const grpc::internal::RpcMethod method(kLinkMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
                                         link.channel);
  link.stream.reset(Opener::Create(link.channel.get(), method, &link.call));
  write(link, other_piece(hello()), to);
  link.reader = std::jthread([this, to, &link] { read_answers(to, link); });
  return link;
}

Bell* OutLinks::await_welcome(std::uint32_t to) {
  Link& link = link_to(to);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return link.welcome || closed_.has_value(); });
  if (closed_.has_value()) throw FabricBroken(*closed_);
  return link.bell;
}

void OutLinks::read_answers(std::uint32_t to, Link& link) {
  Pong pong;
  while (link.stream->Read(&pong)) {
    if (pong.kind_case() == Pong::kPing) {
      const std::uint64_t now = clock_nanos();
      if (pong.ping() <= now) round_trip_s_ = static_cast<double>(now - pong.ping()) * 1e-9;
      continue;
    }
    Bell* const bell = peers_.boards().speak_to(to, pong.welcome());
    const std::scoped_lock lock(mutex_);
    link.welcome = true;
    if (bell != nullptr) link.bell = bell;
    changed_.notify_all();
  }
  fate_.break_all(fmt::format("the link to rank {} is closed", to));
}

void OutLinks::write(Link& link, const grpc::ByteBuffer& piece, std::uint32_t to) {
  {
    Egress::Turn turn(egress_, piece.Length() + kMessagePrefix);
    fate_.throw_if_broken();
    turn.mark_sent();
    if (link.stream->Write(piece)) return;
  }
  fate_.break_all(fmt::format("the link to rank {} is closed", to));
  fate_.throw_if_broken();
}

void OutLinks::send_piece(std::uint32_t to, std::span<const std::byte>& bytes, bool direct) {
  const std::size_t size = std::min(kStreamPiece, bytes.size());
  write(link_to(to), data_piece(bytes.first(size), direct), to);
  bytes = bytes.subspan(size);
}

void OutLinks::ping() {
  const std::uint64_t now = clock_nanos();
  if (now - pinged_ < kPingNanos) return;
  pinged_ = now;
  Piece piece;
  piece.set_ping(now);
  const std::uint32_t next = (peers_.rank() + 1) % peers_.ranks();
  write(link_to(next), other_piece(piece), next);
}

}  // namespace orrery::live
