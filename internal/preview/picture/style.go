package picture

// style has every colour twice. Blue and orange-red stay apart for who sees no red or no green, and the
// red is where nothing else is: at the bottom of a cell.
const style = `<style>
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 }
.quiet { fill: #59636e }
.lock { fill: #59636e; font-style: italic }
.peak { font-weight: 600 }
.alarm { fill: #b3261e; font-weight: 600 }
.paper { fill: #ffffff }
.bar { fill: #3b6fd4 }
.ticks { fill: #3b6fd4 }
.lost { fill: #d9480f }
.busy { fill: #1f2328 }
.axis, .pointer { stroke: #59636e; stroke-width: 1 }
.grid { stroke: #e3e7eb; stroke-width: 1 }
.group { stroke: #8c96a0; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.quiet, .lock { fill: #9aa6b2 }
.alarm { fill: #ff9a8a }
.paper { fill: #0d1117 }
.bar, .ticks { fill: #6ea0ff }
.lost { fill: #ff7a3d }
.busy { fill: #e6edf3 }
.axis, .pointer { stroke: #9aa6b2 }
.grid { stroke: #21262d }
.group { stroke: #6b7682 }
}
</style>`
