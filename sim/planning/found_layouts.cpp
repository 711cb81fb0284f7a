#include "sim/planning/found_layouts.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace orrery::sim {

std::string found_text(const FoundLayouts& found) {
  nlohmann::ordered_json layouts = nlohmann::ordered_json::array();
  for (const FoundLayouts::Each& each : found.layouts) {
    layouts.push_back({{"nodes", each.job_nodes},
                       {"batch", each.global_batch},
                       {"tensor", each.choice.tensor},
                       {"context", each.choice.context},
                       {"pipeline", each.choice.pipeline},
                       {"data", each.choice.data},
                       {"chunks", each.choice.chunks},
                       {"expert", each.choice.expert},
                       {"micro_batch", each.choice.micro_batch},
                       {"shard", name_of(each.choice.shard)},
                       {"recompute", name_of(each.choice.recompute)}});
  }
  return nlohmann::ordered_json{
      {"cluster", found.cluster}, {"gpus", found.gpus}, {"layouts", layouts}}
      .dump();
}

FoundLayouts parse_found(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    FoundLayouts found{json.at("cluster"), json.at("gpus"), {}};
    for (const auto& each : json.at("layouts")) {
      FoundLayouts::Each layout{each.at("nodes"), each.at("batch"), {}};
      LayoutChoice& choice = layout.choice;
      choice.tensor = each.at("tensor");
      choice.context = each.at("context");
      choice.pipeline = each.at("pipeline");
      choice.data = each.at("data");
      choice.chunks = each.at("chunks");
      choice.expert = each.at("expert");
      choice.micro_batch = each.at("micro_batch");
      choice.shard = named<Sharding>(each.at("shard").get<std::string>());
      choice.recompute = named<Recompute>(each.at("recompute").get<std::string>());
      found.layouts.push_back(std::move(layout));
    }
    return found;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::bad_input,
                std::string("expected found layouts as JSON, found another text: ") + error.what());
  }
}

}  // namespace orrery::sim
