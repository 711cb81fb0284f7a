#include "tests/bench/contender.hpp"

#ifdef ORRERY_GLOO
#include <filesystem>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

namespace orrery::live {

#ifdef ORRERY_GLOO
namespace {

class Gloo : public Contender {
 public:
  Gloo(std::uint32_t rank, std::uint32_t ranks, const std::string& folder)
      : context_(std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank),
                                                             static_cast<int>(ranks))) {
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    std::filesystem::create_directories(folder);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }
  void all_reduce(std::span<float> values) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    const auto sum = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(
        &gloo::sum<float>);
    options.setReduceFunction(sum);
    gloo::allreduce(options);
  }

 private:
  const std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

std::unique_ptr<Contender> make_gloo(std::uint32_t rank, std::uint32_t ranks,
                                     const std::string& folder) {
  return std::make_unique<Gloo>(rank, ranks, folder);
}
#else
std::unique_ptr<Contender> make_gloo(std::uint32_t, std::uint32_t, const std::string&) {
  return nullptr;
}
#endif

}  // namespace orrery::live
