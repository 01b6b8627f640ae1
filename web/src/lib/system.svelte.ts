// The server's identity and permissions, and its host's noise floor.

import { get } from './api/client';
import type { CalibrationState, System } from './api/shapes';
import { stream } from './live/stream.svelte';

class SystemState {
  info = $state.raw<System | undefined>();
  calibration = $state.raw<CalibrationState | undefined>();

  /** The noise floor: differences of delay below it are caused by this host. */
  floor = $derived.by(() => {
    const kept = this.calibration?.kept;
    if (!kept) return undefined;
    const figures = kept.figures as Record<string, number>;
    const delay = figures['lab_one_way_delay_p99_seconds'] ?? figures['loopback_one_way_delay_p99_seconds'];
    const spacing = figures['lab_spacing_1000pps_seconds'] ?? figures['loopback_spacing_1000pps_seconds'];
    return { delay, spacing, help: `99th percentile of the delay caused by this host (calibration ${kept.id}): smaller differences are noise.` };
  });

  constructor() {
    stream.on({
      hello: () => void this.refresh(),
      state: (event) => {
        if (event.kind === 'calibration') void this.loadCalibration();
      },
    });
  }

  async refresh(): Promise<void> {
    try {
      this.info = await get<System>('/system');
    } catch {
      return;
    }
    await this.loadCalibration();
  }

  async loadCalibration(): Promise<void> {
    try {
      this.calibration = await get<CalibrationState>('/calibration');
    } catch {
      this.calibration = undefined;
    }
  }
}

export const system = new SystemState();
