#include "cli/shared/price_server.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/schema/names.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::json;
using estimates::OperatorPrices;

/// Returns the kind of collective that the program names in the spelling of PyTorch, with
/// underscores. Throws as named().
CollectiveKind collective_kind(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return named<CollectiveKind>(name);
}

Seconds kernel_seconds(const OperatorPrices& prices, const Json& asked) {
  Kernel kernel{.kind = named<Kernel::Kind>(asked.at("kernel").get<std::string>())};
  kernel.m = asked.value("m", 0.0);
  kernel.n = asked.value("n", 0.0);
  kernel.k = asked.value("k", 0.0);
  kernel.batch = asked.value("batch", 1.0);
  kernel.flop = Flop{asked.value("flop", 0.0)};
  kernel.bytes = Bytes{asked.value("bytes", 0.0)};
  const std::string entry = asked.value("name", "");
  kernel.name = kernel_entry(entry);
  kernel.flash_2 = is_flash_2(entry);
  return prices.kernel(kernel, named<Precision>(asked.value("precision", "bf16")));
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

}  // namespace orrery::cli
