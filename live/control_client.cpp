#include "live/control_client.hpp"

#include <mutex>

#include <grpcpp/grpcpp.h>

#include "live/control.grpc.pb.h"
#include "live/credentials.hpp"
#include "live/protocol.hpp"

namespace orrery::live {

struct ControlClient::Impl {
  std::unique_ptr<Control::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<AgentMessage, ControllerMessage>> stream;
  std::mutex writing;
};

ControlClient::ControlClient(const std::string& address, const Secrets& secrets,
                             const Hello& hello)
    : impl_(std::make_unique<Impl>()) {
  impl_->stub = Control::NewStub(open_channel(address, secrets, kMostControlBytes));
  impl_->stream = impl_->stub->Session(&impl_->context);
  AgentMessage message;
  *message.mutable_hello() = hello;
  send(message);
}

ControlClient::~ControlClient() { impl_->context.TryCancel(); }

std::optional<ControllerMessage> ControlClient::read() {
  ControllerMessage message;
  if (!impl_->stream->Read(&message)) return std::nullopt;
  return message;
}

bool ControlClient::send(const AgentMessage& message) {
  const std::scoped_lock lock(impl_->writing);
  return impl_->stream->Write(message);
}

void ControlClient::finish() {
  const std::scoped_lock lock(impl_->writing);
  impl_->stream->WritesDone();
}

}  // namespace orrery::live
