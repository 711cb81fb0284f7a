// gRPC service with one bidirectional streaming method whose incoming messages stay bytes. The
// server checks the size of each message before parsing, and can report the fault by name; gRPC's
// own size limit would end the stream without a log line, and gRPC too checks a message only after
// the whole message has arrived. The control plane and the data plane are such services.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

namespace orrery::live {

/// Size limit to pass to listen() (credentials.hpp) if the service checks message sizes itself.
inline constexpr int kNoLimitOfGrpc = -1;

/// gRPC service with one bidirectional stream of bytes in and `Answer` messages out. Calls `serve`
/// from gRPC's threads, once per stream; the stream ends when `serve` returns.
template <class Answer>
class ByteService : public grpc::Service {
 public:
  using Stream = grpc::ServerReaderWriter<Answer, grpc::ByteBuffer>;
  using Serve = std::function<grpc::Status(grpc::ServerContext& context, Stream& stream)>;

  /// Registers `serve` as the handler of `method` ("/package.Service/Method"). The string `method`
  /// must outlive this object.
  ByteService(const char* method, Serve serve) {
    using Handler = grpc::internal::BidiStreamingHandler<ByteService, grpc::ByteBuffer, Answer>;
    // Generated code does the same; its non-asynchronous services have typed messages only.
    AddMethod(new grpc::internal::RpcServiceMethod(  // Owned by the service.
        method, grpc::internal::RpcMethod::BIDI_STREAMING,
        new Handler([serve = std::move(serve)](ByteService*, grpc::ServerContext* context,
                                               Stream* stream) { return serve(*context, *stream); },
                    this)));
  }
};

/// Reads the next message of a service's stream with `parse(wire)`. Returns false if the stream has
/// ended, or if the message is larger than `most_bytes` or cannot be parsed; `why`, null before the
/// call, names the fault in the latter two cases. Blocks until a message arrives or the stream
/// ends.
template <class Stream, class Parse>
bool read_message(Stream& stream, std::size_t most_bytes, const Parse& parse, const char*& why) {
  grpc::ByteBuffer wire;
  if (!stream.Read(&wire)) return false;
  if (wire.Length() > most_bytes) {
    why = "its message is too large";
  } else if (!parse(wire)) {
    why = "its message cannot be read";
  }
  return why == nullptr;
}

}  // namespace orrery::live
