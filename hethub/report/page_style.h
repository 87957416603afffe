#pragma once

#include <string_view>

namespace hethub {

/// The page's style sheet. The colours of data are those of Okabe and Ito, which people with any
/// colour vision tell apart ("Color Universal Design", 2008); communication is paler than compute.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff;
  --panel: #f6f8fa; --rule: #d0d7de; --warn: #8a3c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa5b1; --paper: #0d1117;
  --panel: #161b22; --rule: #3d444d; --warn: #ffb27a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1280px; margin: 0 auto; padding: 16px 20px 60px; }
h1 { font-size: 26px; margin: 8px 0; } h2 { font-size: 19px; margin: 34px 0 8px; }
p { margin: 6px 0; } .soft { color: var(--soft); } .warn { color: var(--warn); }
table { border-collapse: collapse; margin: 8px 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: 4px 14px 4px 0; text-align: left; }
th { font-weight: 600; } td.n, th.n { text-align: right; padding: 4px 14px; }
code { font: 13px ui-monospace, monospace; }
.tag { border: 1px solid var(--rule); border-radius: 9px; padding: 0 8px; font-size: 12px;
  background: var(--panel); white-space: nowrap; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; margin: 8px 0; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } svg .strong { font-weight: 600; } svg .title { font-size: 14px;
  font-weight: 600; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .on-bar { fill: #ffffff; font-size: 11px; font-weight: 600; pointer-events: none;
  paint-order: stroke; stroke: #00000090; stroke-width: 2px; }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1.2; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(460px, 1fr)); gap: 18px; }
.line { fill: none; stroke-width: 2; } .dot { stroke: none; }
.line.series-0 { stroke: #0072b2; } .dot.series-0 { fill: #0072b2; }
.line.series-1 { stroke: #d55e00; } .dot.series-1 { fill: #d55e00; }
.line.dashed { stroke-dasharray: 6 4; }
.bar { stroke: var(--paper); stroke-width: 0.4; }
.bar.predicted { opacity: 0.72; stroke: var(--ink); stroke-width: 0.8; stroke-dasharray: 3 2; }
.bar:hover { stroke: var(--ink); stroke-width: 1.5; }
.legend i { display: inline-block; width: 12px; height: 12px; margin: 0 5px 0 0; }
.legend span { margin-right: 16px; white-space: nowrap; }
.action-forward { fill: #0072b2; background: #0072b2; }
.action-backward { fill: #009e73; background: #009e73; }
.action-backward_input { fill: #00795a; background: #00795a; }
.action-backward_weight { fill: #5fbf9f; background: #5fbf9f; }
.action-send_activation { fill: #56b4e9; background: #56b4e9; }
.action-recv_activation { fill: #b5dcf3; background: #b5dcf3; }
.action-send_gradient { fill: #b8a100; background: #b8a100; }
.action-recv_gradient { fill: #f0e442; background: #f0e442; }
.action-sync_gradients { fill: #e69f00; background: #e69f00; }
.action-check_gradients { fill: #999999; background: #999999; }
.action-norm_gradients { fill: #999999; background: #999999; }
.action-sync_norm { fill: #999999; background: #999999; }
.action-update { fill: #cc79a7; background: #cc79a7; }
.action-sync_parameters { fill: #d55e00; background: #d55e00; }
.action-other { fill: #6e7781; background: #6e7781; }
.stage { fill: var(--panel); stroke-width: 2.5; rx: 6px; }
.kind-0 { stroke: #0072b2; } .kind-1 { stroke: #d55e00; } .kind-2 { stroke: #009e73; }
.kind-3 { stroke: #cc79a7; } .kind-4 { stroke: #e69f00; } .kind-5 { stroke: #56b4e9; }
.memory-0 { fill: #0072b2; } .memory-1 { fill: #56b4e9; } .memory-2 { fill: #cc79a7; }
.memory-3 { fill: #009e73; } .memory-4 { fill: #e69f00; } .memory-5 { fill: #999999; }
)css";

}  // namespace hethub
