#include "live/control/control_server.hpp"

#include <chrono>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "live/control.grpc.pb.h"
#include "live/control/message_check.hpp"
#include "live/control/protocol.hpp"
#include "live/transport/byte_service.hpp"
#include "live/transport/credentials.hpp"
#include "live/transport/doorman.hpp"
#include "live/transport/token.hpp"

namespace orrery::live {
namespace {

using Service = ByteService<ControllerMessage>;
using Stream = Service::Stream;
constexpr const char* kSession = "/orrery.live.Control/Session";

bool read(Stream& stream, AgentMessage& message, const char*& why) {
  const auto parse = [&message](grpc::ByteBuffer& wire) {
    return grpc::SerializationTraits<AgentMessage>::Deserialize(&wire, &message).ok();
  };
  return read_message(stream, kMostControlBytes, parse, why);
}

bool read_at_the_door(grpc::ServerContext& context, Stream& stream, AgentMessage& message,
                      const char*& why) {
  const AtTheDoor waits(context);
  return read(stream, message, why);
}

}  // namespace

struct ControlServer::Impl {
  struct Seat {
    std::mutex mutex;
    Stream* stream = nullptr;
    Hello hello;  ///< Hello that opened `stream`.
    grpc::ServerContext* context = nullptr;
  };

  Impl(std::string secret, std::uint32_t ranks, Handler on_message)
      : token(std::move(secret)), seats(ranks), handler(std::move(on_message)) {}

  grpc::Status session(grpc::ServerContext& context, Stream& stream);
  const char* objection(const AgentMessage& first) const;

  const std::string token;
  std::vector<Seat> seats;
  const Handler handler;
  Service service{kSession, [this](auto& call, auto& stream) { return session(call, stream); }};
  Listener listener;
};

/// Returns the reason to refuse a stream whose first message is `first`; null if the stream is
/// accepted.
const char* ControlServer::Impl::objection(const AgentMessage& first) const {
  if (!first.has_hello()) return "expected a hello as its first message, found another kind";
  if (!same_token(first.hello().token(), token)) return "its token is not the token of this run";
  if (first.hello().protocol() != kProtocol)
    return "its protocol version is not the version of this controller";
  return first.hello().rank() < seats.size() ? nullptr : "its rank is not a rank of this run";
}

grpc::Status ControlServer::Impl::session(grpc::ServerContext& context, Stream& stream) {
  AgentMessage message;
  const char* why = nullptr;
  if (read_at_the_door(context, stream, message, why)) {
    why = objection(message);
  } else if (!why) {
    why = "expected a hello, found the end of the stream";
  }
  if (why) {
    log_refusal(context.peer(), why);
    return {grpc::StatusCode::PERMISSION_DENIED, "not an agent of this run"};
  }
  const std::uint32_t rank = message.hello().rank();
  const membership::Seat from{rank, message.hello().life()};
  Seat& seat = seats[rank];
  {
    const std::scoped_lock lock(seat.mutex);
    if (seat.stream) {
      // The same process has reconnected, or another one has taken its place: the old stream is
      // broken, but the end of the old stream has not arrived yet.
      const bool is_same = seat.hello.SerializeAsString() == message.hello().SerializeAsString();
      if (is_same || seat.hello.life() < message.hello().life()) {
        seat.context->TryCancel();
      } else {
        log_refusal(context.peer(), fmt::format("rank {} is already connected", rank));
      }
      return {grpc::StatusCode::ALREADY_EXISTS, "this rank is already connected"};
    }
    seat.stream = &stream;
    seat.hello = message.hello();
    seat.context = &context;
  }
  do {
    handler(rank, &message);
  } while (read(stream, message, why) && !(why = fault_of(message, from)));
  if (why) log_refusal(fmt::format("a message of rank {}", rank), why);
  {
    const std::scoped_lock lock(seat.mutex);
    seat.stream = nullptr;
    seat.context = nullptr;
  }
  handler(rank, nullptr);
  return grpc::Status::OK;
}

ControlServer::ControlServer(const std::string& address, const Secrets& secrets,
                             std::uint32_t ranks, Handler handler)
    : impl_(std::make_unique<Impl>(secrets.token, ranks, std::move(handler))) {
  impl_->listener = listen(address, secrets, impl_->service, kNoLimitOfGrpc, true);
}

ControlServer::~ControlServer() {
  for (Impl::Seat& seat : impl_->seats) {
    const std::scoped_lock lock(seat.mutex);
    if (seat.context) seat.context->TryCancel();
  }
  impl_->listener.server->Shutdown(std::chrono::system_clock::now());
}

const std::string& ControlServer::address() const { return impl_->listener.address; }

bool ControlServer::send_message(std::uint32_t rank, const ControllerMessage& message) {
  Impl::Seat& seat = impl_->seats.at(rank);
  const std::scoped_lock lock(seat.mutex);
  return seat.stream && seat.stream->Write(message);
}

void ControlServer::drop_rank(std::uint32_t rank) {
  Impl::Seat& seat = impl_->seats.at(rank);
  const std::scoped_lock lock(seat.mutex);
  if (seat.context) seat.context->TryCancel();
}

}  // namespace orrery::live
