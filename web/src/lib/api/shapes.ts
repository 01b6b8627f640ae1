// The API's shapes under their own names; all of them come from the OpenAPI document (`npm run types`).

import type { components } from './types';

type Schemas = components['schemas'];

export type Alarm = Schemas['Alarm'];
export type AlarmEvent = Schemas['AlarmEvent'];
export type Applied = Schemas['Applied'];
export type AuditList = Schemas['AuditList'];
export type CalibrationState = Schemas['CalibrationState'];
export type ClientList = Schemas['ClientList'];
export type Diagnosis = Schemas['Diagnosis'];
export type Diff = Schemas['Diff'];
export type Edited = Schemas['Edited'];
export type EmulatorEntry = Schemas['EmulatorEntry'];
export type EmulatorList = Schemas['EmulatorList'];
export type EmulatorLog = Schemas['EmulatorLog'];
export type ExperimentList = Schemas['ExperimentList'];
export type ExperimentState = Schemas['ExperimentState'];
export type FigureData = Schemas['FigureData'];
export type FigureList = Schemas['FigureList'];
export type Flow = Schemas['Flow'];
export type Hello = Schemas['Hello'];
export type InterfaceEntry = Schemas['InterfaceEntry'];
export type InterfaceList = Schemas['InterfaceList'];
export type Interval = Schemas['Interval'];
export type IntervalCount = Schemas['IntervalCount'];
export type LabList = Schemas['LabList'];
export type LossLedger = Schemas['LossLedger'];
export type PlanList = Schemas['PlanList'];
export type Preview = Schemas['Preview'];
export type Problem = Schemas['Problem'];
export type ProfileList = Schemas['ProfileList'];
export type Record = Schemas['Record'];
export type Report = Schemas['EmulatorReport'];
export type RunList = Schemas['RunList'];
export type SampleEvent = Schemas['SampleEvent'];
export type ScenarioEntry = Schemas['ScenarioEntry'];
export type ScenarioList = Schemas['ScenarioList'];
export type ScenarioText = Schemas['ScenarioText'];
export type StateEvent = Schemas['StateEvent'];
export type StepOutcome = Schemas['StepOutcome'];
export type System = Schemas['System'];
export type Test = Schemas['Test'];
export type TestList = Schemas['TestList'];
export type Validation = Schemas['Validation'];
export type Warning = Schemas['Warning'];
export type WarningEvent = Schemas['WarningEvent'];
