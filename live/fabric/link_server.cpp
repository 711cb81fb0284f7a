#include "live/fabric/link_server.hpp"

#include <chrono>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "live/fabric/piece_wire.hpp"
#include "live/transport/doorman.hpp"
#include "live/transport/token.hpp"

namespace orrery::live {
namespace {

/// Limit of a message; a real neighbour sends less.
constexpr std::size_t kMostPieceBytes = 4 << 20;

template <class Stream>
bool read(Stream& stream, Piece& piece, PieceData& data, const char*& why) {
  const auto parse = [&](grpc::ByteBuffer& wire) { return read_piece(wire, piece, data); };
  return read_message(stream, kMostPieceBytes, parse, why);
}

}  // namespace

LinkServer::LinkServer(const std::string& address, const Secrets& secrets, SharedFate& fate)
    : secrets_(secrets),
      fate_(fate),
      service_(kLinkMethod, [this](auto& link, auto& stream) { return serve_link(link, stream); }),
      listener_(listen(address, secrets, service_, kNoLimitOfGrpc)) {
  fate_.on_break([this](const std::string& why) { close(why); });
}

LinkServer::~LinkServer() {
  listener_.server->Shutdown(std::chrono::system_clock::now());
  // waits until the threads that served links have released this object
  const std::scoped_lock lock(mutex_);
}

void LinkServer::admit_peers(Peers& peers) {
  const std::scoped_lock lock(mutex_);
  linked_.resize(peers.ranks());
  peers_ = &peers;
  changed_.notify_all();
}

void LinkServer::close(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  closed_ = why;
  for (grpc::ServerContext* link : open_) link->TryCancel();
  changed_.notify_all();
}

/// Why a link may not come in; nothing: it has. Each link once: a second one would mix its pieces
/// in.
const char* LinkServer::objection(const Piece& first) {
  if (!first.has_hello()) return "its first message is not a hello";
  const LinkHello& said = first.hello();
  if (!same_token(said.token(), secrets_.token)) return "it does not know the run's token";
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return peers_ != nullptr || closed_.has_value(); });
  if (closed_.has_value()) return "the links of this epoch are closed";
  if (said.rank() >= peers_->ranks() || said.rank() == peers_->rank()) {
    return "the run has no such rank";
  }
  if (linked_[said.rank()]) return "that rank has its link";
  linked_[said.rank()] = true;
  return nullptr;
}

/// Serves the stream until it ends. Returns the objection to its last message, if that ended it.
const char* LinkServer::serve_stream(Service::Stream& stream, const LinkHello& hello) {
  Bell& bell = peers_->boards().bell();
  Pong pong;
  peers_->boards().connect_peer(hello.rank(), hello.board(), *pong.mutable_welcome());
  bell.ring();
  if (!stream.Write(pong)) return nullptr;
  Inbox& inbox = peers_->inbox(hello.rank());
  Piece piece;
  PieceData data;
  const char* why = nullptr;
  while (read(stream, piece, data, why)) {
    if (piece.kind_case() == Piece::kPing) {
      pong.set_ping(piece.ping());
      stream.Write(pong);
    } else if (piece.kind_case() == Piece::kData) {
      inbox.put_piece(std::move(data), piece.direct());
    }
    bell.ring();
  }
  return why;
}

grpc::Status LinkServer::serve_link(grpc::ServerContext& link, Service::Stream& stream) {
  {
    const std::scoped_lock lock(mutex_);
    if (closed_.has_value()) return {grpc::StatusCode::ABORTED, *closed_};
    open_.insert(&link);
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
  if (!stranger) wrong = serve_stream(stream, first.hello());
  bool over = false;
  {
    const std::scoped_lock lock(mutex_);
    open_.erase(&link);
    over = closed_.has_value();
  }
  if (stranger) {
    if (!over) log_refusal(link.peer(), stranger);
    return {grpc::StatusCode::PERMISSION_DENIED, "not a neighbour of this run"};
  }
  const std::string neighbour = fmt::format("rank {}", first.hello().rank());
  if (wrong && !over) log_refusal("what " + neighbour + " sends", wrong);
  fate_.break_all(neighbour + " closed its link");
  return grpc::Status::OK;
}

}  // namespace orrery::live
