/** The little of React that the wrapper uses: the package is typed by the React of those who install it. */

declare module "react" {
  export interface ReactElement {}
  export type Ref<T> = ((instance: T | null) => void) | { readonly current: T | null } | null;
  export function createElement(type: string, props: object): ReactElement;
  export function useEffect(effect: () => (() => void) | void, deps?: readonly unknown[]): void;
  export function useRef<T>(initial: T): { current: T };
}
