#include "live/control_server.hpp"

#include <chrono>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "core/error.hpp"
#include "live/control.grpc.pb.h"
#include "live/protocol.hpp"
#include "live/token.hpp"

namespace orrery::live {

struct ControlServer::Impl : public Control::Service {
  using Stream = grpc::ServerReaderWriter<ControllerMessage, AgentMessage>;
  struct Seat {
    std::mutex mutex;
    Stream* stream = nullptr;
    grpc::ServerContext* context = nullptr;
  };

  Impl(std::string secret, std::uint32_t ranks, Handler on_message)
      : token(std::move(secret)), seats(ranks), handler(std::move(on_message)) {}

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;
  bool admit(const AgentMessage& first) const;

  const std::string token;
  std::vector<Seat> seats;
  const Handler handler;
  std::unique_ptr<grpc::Server> server;
};

bool ControlServer::Impl::admit(const AgentMessage& first) const {
  return first.has_hello() && first.hello().protocol() == kProtocol &&
         first.hello().rank() < seats.size() && same_token(first.hello().token(), token);
}

grpc::Status ControlServer::Impl::Session(grpc::ServerContext* context, Stream* stream) {
  AgentMessage message;
  if (!stream->Read(&message) || !admit(message)) {
    return {grpc::StatusCode::PERMISSION_DENIED, "not an agent of this run"};
  }
  const std::uint32_t rank = message.hello().rank();
  Seat& seat = seats[rank];
  {
    const std::scoped_lock lock(seat.mutex);
    if (seat.stream) return {grpc::StatusCode::ALREADY_EXISTS, "this rank has an agent"};
    seat.stream = stream;
    seat.context = context;
  }
  do {
    handler(rank, &message);
  } while (stream->Read(&message));
  {
    const std::scoped_lock lock(seat.mutex);
    seat.stream = nullptr;
    seat.context = nullptr;
  }
  handler(rank, nullptr);
  return grpc::Status::OK;
}

ControlServer::ControlServer(const std::string& address, const std::string& token,
                             std::uint32_t ranks, Handler handler)
    : impl_(std::make_unique<Impl>(token, ranks, std::move(handler))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(impl_.get());
  impl_->server = builder.BuildAndStart();
  if (!impl_->server) {
    throw Error(ErrorKind::environment, fmt::format("cannot listen at '{}'", address));
  }
}

ControlServer::~ControlServer() {
  for (Impl::Seat& seat : impl_->seats) {
    const std::scoped_lock lock(seat.mutex);
    if (seat.context) seat.context->TryCancel();
  }
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

bool ControlServer::send(std::uint32_t rank, const ControllerMessage& message) {
  Impl::Seat& seat = impl_->seats.at(rank);
  const std::scoped_lock lock(seat.mutex);
  return seat.stream && seat.stream->Write(message);
}

}  // namespace orrery::live
