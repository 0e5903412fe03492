// Package picture draws a preview: the ticks of each minute above, and below them what each job does in
// each part of the window. Whoever looks sees the crowded minutes and the locks that are fought over.
//
// It draws what it is given and knows nothing of schedules. [SVG] is a pure function of its [Chart].
package picture
