// The shipped GPU models and cluster presets (catalog/*.yaml, embedded at build time), loaded by
// the same strict loader as any file on first use. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topologies/topology.pb.h"

namespace orrery {

const GpuCatalog& gpu_catalog();
const PresetCatalog& preset_catalog();

}  // namespace orrery
