#include "cli/shared/price_server.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::json;
using estimates::OperatorPrices;

/// Returns the value of a name in a table of names. Throws an internal Error for another name.
template <typename Value, std::size_t n>
Value value_named(const std::array<std::pair<const char*, Value>, n>& table,
                  const std::string& name) {
  for (const auto& [known, value] : table) {
    if (name == known) return value;
  }
  throw Error(ErrorKind::internal, fmt::format("a question about the unknown '{}'", name));
}

Precision precision_named(const std::string& name) {
  static constexpr std::array<std::pair<const char*, Precision>, 5> kTable{
      {{"fp32", Precision::fp32},
       {"tf32", Precision::tf32},
       {"bf16", Precision::bf16},
       {"fp8", Precision::fp8},
       {"fp4", Precision::fp4}}};
  return value_named(kTable, name);
}

Kernel::Kind kernel_kind(const std::string& name) {
  static constexpr std::array<std::pair<const char*, Kernel::Kind>, 3> kTable{
      {{"gemm", Kernel::Kind::gemm},
       {"attention", Kernel::Kind::attention},
       {"memory", Kernel::Kind::memory_bound}}};
  return value_named(kTable, name);
}

CollectiveKind collective_kind(const std::string& name) {
  static constexpr std::array<std::pair<const char*, CollectiveKind>, 6> kTable{
      {{"all_reduce", CollectiveKind::all_reduce},
       {"reduce_scatter", CollectiveKind::reduce_scatter},
       {"all_gather", CollectiveKind::all_gather},
       {"all_to_all", CollectiveKind::all_to_all},
       {"broadcast", CollectiveKind::broadcast},
       {"send_receive", CollectiveKind::send_receive}}};
  return value_named(kTable, name);
}

/// Returns the table entry that a kernel uses, as a text of static storage; "" for a plain stream.
const char* table_entry(const std::string& name) {
  static constexpr std::array<std::pair<const char*, const char*>, 7> kTable{
      {{"", ""},
       {"norm", "norm"},
       {"activation", "activation"},
       {"rotary", "rotary"},
       {"embedding", "embedding"},
       {"attention", "attention"},
       {"attention_backward", "attention_backward"}}};
  return value_named(kTable, name);
}

Seconds kernel_seconds(const OperatorPrices& prices, const Json& asked) {
  Kernel kernel{.kind = kernel_kind(asked.at("kernel").get<std::string>())};
  kernel.m = asked.value("m", 0.0);
  kernel.n = asked.value("n", 0.0);
  kernel.k = asked.value("k", 0.0);
  kernel.batch = asked.value("batch", 1.0);
  kernel.flop = Flop{asked.value("flop", 0.0)};
  kernel.bytes = Bytes{asked.value("bytes", 0.0)};
  kernel.name = table_entry(asked.value("name", ""));
  return prices.kernel(kernel, precision_named(asked.value("precision", "bf16")));
}

Seconds collective_seconds(OperatorPrices& prices, const Json& asked) {
  return prices.collective(collective_kind(asked.at("collective").get<std::string>()),
                           asked.at("members").get<std::vector<std::uint32_t>>(),
                           Bytes{asked.at("bytes").get<double>()});
}

}  // namespace

std::string PriceServer::answer_question(const std::string& question) {
  Json answer = Json::object();
  try {
    const Json asked = Json::parse(question);
    if (asked.contains("report")) {
      report_ = asked.at("report").get<std::string>();
    } else if (asked.contains("collective")) {
      answer["seconds"] = collective_seconds(prices_, asked).value;
    } else {
      answer["seconds"] = kernel_seconds(prices_, asked).value;
    }
  } catch (const Json::exception& error) {
    answer["error"] = fmt::format("a question in another form than expected: {}", error.what());
  } catch (const Error& error) {
    answer["error"] = error.what();
  }
  // The error may quote a question that is not UTF-8.
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void serve_prices(PriceServer& server, int descriptor) {
  while (const std::optional<std::string> question = read_message(descriptor)) {
    if (!write_message(descriptor, server.answer_question(*question))) return;
  }
}

}  // namespace orrery::cli
