// Package idle measures a daemon that has nothing to do: a real `rota run` process, on a real
// redis-server, with a table whose jobs are due once a year. All its figures are absolute.
//
// The tests hold loose bounds and take a few seconds; the benchmarks look for longer and tell
// the figures. It needs Linux: memory is read from /proc.
package idle
